"""The commands that need no compiler: config, explain, assets, runs, ls, doctor, init, completion."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from septran import settings
from septran.assets import bundled
from septran.backends.base import Availability
from septran.cli import card, doctor
from septran.cli.console import Terminal
from septran.cli.values import exactly_one, parse_dims
from septran.errors import ConfigError
from septran.run import store


def test_config_shows_value_and_origin(septran, monkeypatch):
    monkeypatch.setenv("SEPTRAN_MODEL", "qwen")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-never-shown")
    found = septran("config", "--json")
    assert found.json["schema"] == "septran.config/1"
    assert found.json["settings"]["model"] == {"value": "qwen", "from": "SEPTRAN_MODEL"}
    text = septran("config")
    assert "sk-never-shown" not in found.out + text.out
    assert any(line.split()[:2] == ["writer", "library"] for line in text.out.splitlines())


def test_explain(septran):
    assert "duplicate key" in septran("explain", "c011").out
    assert septran("explain", "C011", "--json").json["code"] == "C011"
    codes = [entry["code"] for entry in septran("explain", "--json").json["codes"]]
    assert "C011" in codes and codes == sorted(codes)
    missing = septran("explain", "C019")
    assert missing.code == 2 and "C004" in missing.err


def test_assets_ls_diff_eject(septran, in_tmp):
    assert septran("assets", "eject", "configs/default.yaml").code == 2
    assert septran("init", ".").code == 0
    out = septran("assets", "eject", "configs/default.yaml")
    assert out.code == 0
    copy = in_tmp / "configs" / "default.yaml"
    assert copy.is_file()
    assert septran("assets", "eject", "configs/default.yaml").code == 2
    copy.write_text(copy.read_text() + "seed: 7\n")
    assert "+seed: 7" in septran("assets", "diff").out
    found = septran("config", "--json").json["settings"]["seed"]
    assert found["value"] == 7 and found["from"].startswith("project (")
    assert septran("assets", "eject", "configs/default.yaml", "--force").code == 0
    assert "seed: 7" not in copy.read_text()
    assert septran("assets", "diff", "configs/nope.yaml").code == 2


def test_init_writes_a_project_that_loads(septran, in_tmp):
    found = septran("init", "new", "--json")
    assert len(found.json["files"]) == 3
    toml = (in_tmp / "new" / "septran.toml").read_text()
    for name in settings.SCHEMA:
        assert f"# {name} =" in toml
    lines = (line.removeprefix("# ") for line in toml.splitlines() if " = " in line)
    (in_tmp / "new" / "septran.toml").write_text("\n".join(lines) + "\n")
    loaded = settings.load(project=in_tmp / "new")
    assert loaded.origins["attempts"].layer == "septran.toml"
    assert loaded.attempts == settings.SCHEMA["attempts"].default
    again = septran("init", "new")
    assert again.code == 2 and "C006" in again.err


def test_runs(septran, fresh_home):
    assert septran("runs", "ls", "--json").json["runs"] == []
    assert septran("runs", "show").code == 2
    run = store.create({"op": "gemm", "backend": "b"}, label=("gemm",), settings=settings.load())
    run.write("kernel.txt", "k")
    run.finish("finished", exit_code=0, summary={"level": "accurate", "where": "native"})
    (row,) = septran("runs", "ls", "--json").json["runs"]
    assert (row["op"], row["level"], row["status"]) == ("gemm", "accurate", "finished")
    assert run.id in septran("runs", "ls").out
    shown = septran("runs", "show", "latest", "--json").json
    assert shown["files"] == ["kernel.txt", "run.json", "seals/run.json.seal"]
    assert "level: accurate" in septran("runs", "show").out
    assert septran("runs", "path").out == f"{run.dir.parent / run.id}\n"
    assert septran("runs", "prune", "--keep", "0", "--days", "1", "--json").json["removed"] == []
    assert septran("runs", "rm", run.id).code == 0
    assert not run.dir.exists()


def test_ls_files(septran, in_tmp):
    (in_tmp / "septran.toml").write_text("")
    for name in (
        "mappings/x.sm_1.mapping.yaml",
        "configs/machines/m.yaml",
        "agents/coder/role.yaml",
    ):
        (in_tmp / name).parent.mkdir(parents=True, exist_ok=True)
        (in_tmp / name).write_text("")
    for what, name in (("mappings", "x.sm_1"), ("machines", "m"), ("agents", "coder")):
        found = septran("ls", what, "--json").json
        assert found["schema"] == "septran.ls/1"
        assert {"name": name, "layer": "project"}.items() <= next(
            e for e in found[what] if e["name"] == name
        ).items()
        assert name in septran("ls", what).out


def test_backends_say_whether_their_kernels_run_here(septran, fresh_home):
    """What JAX emulates is not emulated where there is none."""
    entries = {e["name"]: e["here"] for e in septran("ls", "backends", "--json").json["backends"]}
    assert entries["pallas_tpu"] == "no: jax is not installed" and entries["cuda_c"] == "yes"
    assert "no: jax is not installed" in septran("ls", "backends").out


def backend(name: str, **able: bool) -> SimpleNamespace:
    facts = {k: Availability(ok=v, detail=f"{k} fact", install=f"get {k}") for k, v in able.items()}
    return SimpleNamespace(arches=(), name=name, title=name, available=lambda: facts)


@pytest.mark.parametrize(
    ("able", "usable"),
    [
        ({"emit": True, "compile": True, "emulate": True}, True),
        ({"emit": True, "compile": True, "device": False}, False),
        ({"emit": True, "compile": False, "emulate": True}, False),
        ({"emit": True, "compile": True, "emulate": False, "device": True}, True),
    ],
)
def test_doctor_judges_a_backend(able, usable, monkeypatch):
    from septran import backends

    monkeypatch.setattr(backends, "get", lambda name: backend(name, **able))
    assert doctor._examine("b")["usable"] is usable


def test_a_backend_that_cannot_be_loaded_is_reported(monkeypatch):
    from septran import backends

    def broken(name: str) -> None:
        raise ImportError("no module named 'vendor'")

    monkeypatch.setattr(backends, "get", broken)
    found = doctor._examine("theirs")
    assert not found["usable"]
    assert "vendor" in found["capabilities"]["emit"]["detail"]


def test_doctor_says_what_is_missing_and_what_brings_it(septran, monkeypatch):
    from septran import backends

    known = {"a": backend("a", emit=True, compile=False, emulate=True)}
    monkeypatch.setattr(backends, "names", lambda: tuple(known))
    monkeypatch.setattr(backends, "get", known.__getitem__)
    found = septran("doctor")
    assert found.code == 3
    assert "a compile: compile fact; get it with: get compile" in found.out
    assert septran("doctor", "--json").json["backends"][0]["usable"] is False


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell, septran):
    assert "_SEPTRAN_COMPLETE" in septran("completion", shell).out


@pytest.mark.parametrize(
    ("words", "dims"),
    [((), {}), (("M=3", "N=4"), {"M": 3, "N": 4}), (("M=3,N=4",), {"M": 3, "N": 4})],
)
def test_dims(words, dims):
    assert parse_dims(words) == dims


@pytest.mark.parametrize(
    "words", [("M",), ("M=",), ("M=0",), ("M=-1",), ("M=1", "M=2"), ("3=4",), ("M=1.5",)]
)
def test_bad_dims(words):
    with pytest.raises(ConfigError) as caught:
        parse_dims(words)
    assert caught.value.codes == ("C007",)


def test_exactly_one():
    assert exactly_one(op="gemm", logic=None) == "op"
    for given in ({"op": None, "logic": None}, {"op": "a", "logic": "b"}):
        with pytest.raises(ConfigError) as caught:
            exactly_one(**given)
        assert caught.value.codes == ("C008",)


RESULT = {
    "schema": "septran.gen/1",
    "op": "gemm",
    "backend": "cpp",
    "dims": {"M": 512, "N": 64},
    "dtype": "float32",
    "level": "accurate",
    "where": "native",
    "max_error": 1.2e-5,
    "budget_ratio": 0.21,
    "not_checked": ["device"],
    "speedup": {"torch_eager": 1.08, "torch_compile": None},
    "leaves": [{"task": "mma", "writer": "library", "name": "simd"}],
    "model": {"calls": 3, "prompt_tokens": 10, "completion_tokens": 5},
    "seconds": {"compile": 2.13, "verify": 3.0},
    "kernel": "/x/kernel.cpp",
    "run": "/x",
}


def test_card_lines(capsys):
    card.show(RESULT, Terminal())
    assert capsys.readouterr().out.splitlines() == [
        "gemm on cpp, M=512 N=64, float32",
        "  verdict      accurate (native)",
        "  errors       21 % of what is allowed; largest difference to float64 torch 1.2e-05",
        "  speed        1.08 x torch eager",
        "  leaf         mma: simd (library)",
        "  model        3 calls, 10 + 5 tokens",
        "  not checked  device",
        "  seconds      compile 2.1, verify 3.0",
        "  kernel       /x/kernel.cpp",
        "  run          /x",
    ]


def test_card_of_a_kernel_that_is_wrong_beyond_any_budget(capsys):
    """Infinite figures are texts in JSON."""
    card.show({**RESULT, "level": "ran", "budget_ratio": "inf", "max_error": "nan"}, Terminal())
    assert "beyond any allowance" in capsys.readouterr().out


def test_card_for_a_person_and_for_a_stopped_run(capsys):
    card.show(RESULT, Terminal(color="always"))
    assert "\x1b[" in (out := capsys.readouterr().out) and "accurate (native)" in out
    card.show({"op": "gemm", "backend": "cpp", "level": "rejected", "reason": "NaN"}, Terminal())
    assert capsys.readouterr().out.splitlines()[1:] == ["  verdict  rejected", "  because  NaN"]
    missing = {"level": "unavailable", "reason": "no jax", "hint": "septran doctor --install x"}
    card.show({"op": "gemm", "backend": "x", **missing}, Terminal())
    assert "  hint     septran doctor --install x" in capsys.readouterr().out


BAD_LOGIC = """\
import task_lang as task


@task.define(leaf=True)
def leaf(C, A):
    task.call_primitive("mapp", C, A)


@task.define
def entry(C: task.Tensor["N"], A: task.Tensor["N"]):
    task.launch(leaf, C, A)
"""


def test_check_finds_all_problems_of_all_files(septran, in_tmp):
    (in_tmp / "bad.py").write_text(BAD_LOGIC)
    (in_tmp / "bad.mapping.yaml").write_text("entrypoint: a\nentrypoint: b\n")
    found = septran("check", "bad.py", "bad.mapping.yaml", "notes.txt", "gone.py", "--json")
    assert found.code == 2
    assert [e["code"] for e in found.json["errors"]] == ["E110", "C011", "C045", "E128"]
    assert found.json["ok"] is False
    first = found.json["errors"][0]
    assert (first["file"], first["line"], first["col"]) == ("bad.py", 6, 5)
    text = septran("check", "bad.py")
    assert text.out == "" and "did you mean 'map'" in text.err and "1 problem in 1 file" in text.err
    marks = septran("check", "bad.py", "--format", "github").out
    assert marks.startswith("::error file=bad.py,line=6,col=5,title=E110::unknown primitive")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("grid: CORE\n  rules: [{tiles: {outerr: 16}}]", "did you mean 'outer'?"),
        ("grid: COER\n  rules: [{kernel: auto}]", "did you mean 'CORE'?"),
        ("grid: CORE\n  halo: SHARD\n  rules: [{kernel: auto}]", "did you mean 'SHARED'?"),
    ],
)
def test_check_reads_every_word_of_a_policy(septran, in_tmp, policy, message):
    (in_tmp / "my.mapping.yaml").write_text(f"target: cpp\npolicies:\n  {policy}\n")
    found = septran("check", "my.mapping.yaml")
    assert found.code == 2 and message in found.err and "my.mapping.yaml:" in found.err


def test_check_knows_the_targets(septran, in_tmp):
    (in_tmp / "my.mapping.yaml").write_text("target: cup\npolicies:\n  grid: A\n  rules: [{}]\n")
    found = septran("check", "my.mapping.yaml")
    assert found.code == 2 and "M017" in found.err and "did you mean 'cpp'" in found.err


def test_the_shipped_policies_are_clean(septran):
    files = [str(p) for p in sorted((bundled() / "mappings").glob("*.yaml"))]
    assert len(files) > 8
    assert septran("check", *files).code == 0


def test_check_says_nothing_on_stdout_when_all_is_well(septran, in_tmp):
    (in_tmp / "good.py").write_text(BAD_LOGIC.replace("mapp", "copy"))
    found = septran("check", "good.py")
    assert (found.code, found.out, found.err) == (0, "", "no problems in 1 file\n")


def test_config_of_a_model(septran, in_tmp):
    found = septran("config", "--dsl", "cpp", "--json").json["settings"]
    assert found and all(set(entry) == {"value", "from"} for entry in found.values())
    (in_tmp / "mine.yaml").write_text("workflwo: []\n")
    wrong = septran("config", "--dsl", "cpp", "--config", "mine.yaml")
    assert wrong.code == 2 and "mine.yaml:1:1" in wrong.err and "C020" in wrong.err
    assert septran("config", "--dsl", "cp").code == 2


def test_doctor_says_what_brings_more(septran, monkeypatch):
    from septran import backends

    able = backend("a", emit=True, compile=True, emulate=True)
    more = Availability(ok=True, detail="a check", install="pip install the-compiler")
    able.available = lambda: {"compile": more}
    monkeypatch.setattr(backends, "get", lambda name: able)
    monkeypatch.setattr(backends, "names", lambda: ("a",))
    assert "a compile: a check; more with: pip install the-compiler" in septran("doctor").out


def test_bare_ls_and_runs_list(septran):
    assert septran("ls").out == septran("ls", "ops").out
    assert septran("runs").out == septran("runs", "ls").out


def test_the_cells_of_a_batch_as_json(septran, tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text("ops: [relu]\nbackends: [cpp]\ndims: [{N: 65}]\ndtypes: [float32]\n")
    found = septran("batch", str(path), "--list", "--json").json
    assert found["cells"] == ["relu/cpp.native/N=65/float32/library"]


def test_resume_needs_no_flags_repeated(septran, monkeypatch, tmp_path):
    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path))
    first = septran("gen", "--op", "relu", "--backend", "cpp", "--dim", "N=9", "--json")
    assert first.code == 0, first.err
    again = septran("gen", "--resume", "latest", "--json")
    assert again.code == 0, again.err
    assert (again.json["op"], again.json["dims"]) == ("relu", {"N": 9})


@pytest.mark.wider
def test_resuming_a_batch_as_a_kernel_names_the_command(septran, monkeypatch, tmp_path):
    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path / "home"))
    path = tmp_path / "b.yaml"
    path.write_text("ops: [relu]\nbackends: [cpp]\ndims: [{N: 9}]\ndtypes: [float32]\n")
    assert septran("batch", str(path), "--workers", "1").code == 0
    refused = septran("gen", "--resume", "latest")
    assert refused.code == 2
    assert "C139" in refused.err
    assert "septran batch --resume" in refused.err
