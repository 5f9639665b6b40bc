"""The report's page: sources and differences, trend, intervals, commands that can be pasted, and a narrow screen."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from septran.cli.main import main
from septran.report.again import command
from septran.report.data import read_report
from septran.report.history import earlier
from septran.report.write import write_report
from septran.run.store import Run
from tests.docs.test_blocks import environment
from tests.tasklang.test_reader import written

REQUEST = {"op": "relu", "backend": "cpp", "dims": {"N": 9}, "dtype": "float32"}


def run_dir(root: Path, number: int, text: str, **more: Any) -> Run:
    """Write what a finished run of relu left behind."""
    folder = root / f"2026-01-0{number}T00-00-00--relu--cpp--000{number}"
    folder.mkdir(parents=True)
    (folder / "relu.cpp").write_text(text)
    info = {"request": REQUEST, "created": f"2026-01-0{number}", "status": "finished"}
    (folder / "run.json").write_text(json.dumps(info))
    data = {
        **REQUEST,
        "arch": "native",
        "level": "accurate",
        "exit_code": 0,
        "seed": 5,
        "budget_ratio": 0.25,
        "speedup": {"torch_eager": 1.0 + number},
        "timing": {"low": 0.5 + number, "high": 1.5 + number, "kernel_s": 1e-6, "reliable": True},
        "kernel": str(folder / "relu.cpp"),
        "run": str(folder),
        **more,
    }
    (folder / "result.json").write_text(json.dumps(data))
    return Run(folder)


def page(run: Run) -> str:
    return write_report(read_report(run), "html", earlier=earlier(run))


def test_a_command_names_no_dtype_where_there_is_none():
    asked = {"task_file": "inv.py"}
    told = command({"backend": "cpp", "dtype": None}, asked)
    assert told == "septran gen --task inv.py --backend cpp"


def test_each_architecture_has_a_row_where_a_target_has_several(tmp_path):
    report = read_report(run_dir(tmp_path, 1, "int a;\n"))
    (row,) = report.rows
    rows = (
        replace(row, cell="a", compile_s=1.0, verify_s=2.0),
        replace(row, cell="b", compile_s=None, verify_s=9.0, same_text_as="v3"),
        replace(row, cell="c", arch="generic", sort="rejected", verify_s=None),
        replace(row, cell="d", arch="generic", sort="failed", where=""),
        replace(row, cell="e", arch="generic", sort="unavailable", where=""),
        replace(row, cell="f", arch="generic", sort="failed", where="", reason="[C150] inv: no"),
    )
    several = replace(report, rows=rows)
    md, html = (write_report(several, form) for form in ("md", "html"))
    assert "| cpp native | " in md and " | 2 | 1 | 0 | 0 | 0 | 6.0, 9 |" in md
    assert "| cpp generic | " in md and " | 0 | 0 | 2 | 1 | 1 | " in md
    assert ", same text as v3" in md
    assert "Architectures" in html and "cpp generic" in html
    assert "Architectures" not in write_report(report, "html")
    assert "cpp native" not in write_report(report, "md")


def test_source_difference_and_trend_are_on_the_page(tmp_path):
    run_dir(tmp_path, 1, "int a;\nint <old>;\n")
    damaged = run_dir(tmp_path, 2, "")
    (damaged.dir / "result.json").write_text("{")
    text = page(run_dir(tmp_path, 3, "int a;\nint <new>;\n"))
    (link,) = re.findall(r'<a href="#(kernel-\d+)">relu</a>', text)
    body = unescape(text[text.index(f'id="{link}"') :])
    assert "-int <old>;\n+int <new>;" in body
    assert "changed since 2026-01-01" in body
    assert "<new>" not in text, "a kernel's text is escaped"
    assert "4.00 (3.50 to 4.50)" in text, "the interval of a speed"
    trend = text[text.index("<h2>Trend") : text.index("<h2>Kernels")]
    assert "<svg" in trend and trend.count("1 of 1") == 2


def test_speeds_close_to_each_other_have_more_than_one_mark(tmp_path):
    near = {"low": 0.7, "high": 0.73, "kernel_s": 1e-6, "reliable": True}
    text = page(run_dir(tmp_path, 1, "", speedup={"torch_eager": 0.72}, timing=near))
    marks = re.findall(r">\s*([\d.]+)\s*</text>", text[text.index("Speed") :])
    assert {"0.8", "0.9", "1"} <= set(marks), marks


def test_a_first_run_has_no_trend(tmp_path):
    text = page(run_dir(tmp_path, 1, "int a;\n"))
    assert "<h2>Trend" not in text and "int a;" in text


def test_an_interval_of_a_busy_machine_says_so(tmp_path):
    timing = {"low": 0.5, "high": 1.5, "reliable": False}
    text = write_report(read_report(run_dir(tmp_path, 1, "", timing=timing)), "md")
    assert "2.00 (0.50 to 1.50), busy machine" in text


def test_a_command_names_the_users_own_files():
    request = {
        "op": None,
        "logic": "/a b/it's.py",
        "mapping": "/m $x.yaml",
        "where": "emulated",
        "require": ["proved"],
        "writer": "llm",
    }
    data = {"backend": "cpp", "dims": {"N": 3}, "dtype": "float32", "seed": 7, "run": "/r 1"}
    words = shlex.split(command(data, request))
    assert words[:4] == ["septran", "gen", "--logic", "/a b/it's.py"]
    for flag, value in (
        ("--mapping", "/m $x.yaml"),
        ("--where", "emulated"),
        ("--require", "proved"),
        ("--writer", "replay:/r 1"),
        ("--seed", "7"),
    ):
        assert words[words.index(flag) + 1] == value
    assert shlex.split(command({**data, "op": "relu"}, {}))[2:4] == ["--op", "relu"]


@pytest.mark.slow
def test_the_commands_of_a_failing_run_work_when_pasted(tmp_path, monkeypatch, capfd):
    """A logic file in a folder with a space, wrong by a factor: report and verdict name commands; all say so again."""
    folder = tmp_path / "my own logic"
    folder.mkdir()
    written(folder, reference="return (X + X) * 1.5")
    home = tmp_path / "a home"
    monkeypatch.setenv("SEPTRAN_HOME", str(home))
    monkeypatch.chdir(folder)
    assert main(("gen", "--logic", "logic.py", "--backend", "cpp", "--dim", "N=65")) == 1
    capfd.readouterr()
    assert main(("report", "--format", "md")) == 0
    found = [x for x in capfd.readouterr().out.splitlines() if x.startswith("septran ")]
    assert main(("report", "--format", "json")) == 0
    found += [row["command"] for row in json.loads(capfd.readouterr().out)["rows"]]
    assert main(("explain", "verdict", "--json")) == 0
    found.append(json.loads(capfd.readouterr().out)["reproduce"])
    assert len(found) == 3 and {x.split()[1] for x in found} == {"gen", "verify"}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    env = environment(elsewhere)
    for line in dict.fromkeys(found):
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=elsewhere,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1, (line, done.stderr)
        assert "V202" in done.stdout


@pytest.mark.browser
def test_nothing_is_wider_than_a_telephone(tmp_path):
    run_dir(tmp_path / "runs", 1, "int a;\n")
    text = page(run_dir(tmp_path / "runs", 2, "int b;\n"))
    probe = """<script>document.title = [...document.querySelectorAll("figure svg, figure svg text, h1, p")]
      .filter(e => { const b = e.getBoundingClientRect(); return b.left < 0 || b.right > innerWidth; })
      .map(e => e.tagName + " " + e.textContent.slice(0, 40)).join("|") + " of " + innerWidth;</script></body>"""
    path = tmp_path / "report.html"
    path.write_text(text.replace("</body>", probe))
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or "chromium"
    done = subprocess.run(
        [
            browser,
            *"--headless --no-sandbox --disable-gpu --disable-quic --no-first-run".split(),
            *"--disable-background-networking --disable-component-update --disable-sync".split(),
            f"--user-data-dir={tmp_path / 'profile'}",
            "--window-size=420,900",
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    (title,) = re.findall(r"<title>(.*?)</title>", done.stdout)
    wide, _, width = title.rpartition(" of ")
    assert wide == "" and int(width) <= 500
