"""What people do to a tool: every case has its exit code. None is 0 without a verdict, none is 4."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from septran.cli.main import main
from tests.packaging.sources import ROOT
from tests.support.homes import with_tools
from tests.tasklang.test_load import OPERATOR
from tests.tasklang.test_reader import FEW, WAYS_TO_END, written

DEEP = "[" * 20_000 + "]" * 20_000
GIANT = "9" * 5_000
GEN = ("gen", "--backend", "cpp")
RELU = (*GEN, "--op", "relu")
BATCH = "ops: [relu]\nbackends: [cpp]\ndims: [{N: 65}]\ndtypes: [float32]\ntime: false\n"
MAPPING = (ROOT / "mappings" / "cpp.mapping.yaml").read_text(encoding="utf-8")


@pytest.fixture
def run(tmp_path, monkeypatch, capfd, _session_home):
    monkeypatch.setenv("SEPTRAN_HOME", str(with_tools(tmp_path / "home", _session_home)))
    monkeypatch.setenv("SEPTRAN_LOGIC_SECONDS", "1")
    monkeypatch.chdir(tmp_path)

    def call(*args: str) -> tuple[int, str, str]:
        code = main(args)
        return (code, *capfd.readouterr())

    return call


def refused(found: tuple[int, str, str], *codes: int) -> None:
    code, out, err = found
    assert code in codes, (code, out[-300:], err[-600:])
    assert err.startswith(("error", "[error")) or "error[" in err or "error:" in err, err[-600:]
    assert "Traceback" not in err and "internal error" not in err


FLAGS: dict[str, tuple[str, ...]] = {
    "no operator": GEN,
    "unknown operator": (*GEN, "--op", "sofmax"),
    "empty operator": (*GEN, "--op", ""),
    "operator with a slash": (*GEN, "--op", "../../etc/passwd"),
    "operator with a NUL": (*GEN, "--op", "re\x00lu"),
    "operator of a megabyte": (*GEN, "--op", "x" * 1_000_000),
    "operator in capitals": (*GEN, "--op", "RELU"),
    "two operators": (*RELU, "--logic", "x.py"),
    "no target": ("gen", "--op", "relu"),
    "unknown target": ("gen", "--op", "relu", "--backend", "cuda"),
    "empty target": ("gen", "--op", "relu", "--backend", ""),
    "target with a path": ("gen", "--op", "relu", "--backend", "../cpp"),
    "unknown arch": (*RELU, "--arch", "vax"),
    "empty arch": (*RELU, "--arch", "../../x"),
    "dim without a size": (*RELU, "--dim", "N"),
    "dim without a name": (*RELU, "--dim", "=5"),
    "dim of another operator": (*RELU, "--dim", "M=5"),
    "dim zero": (*RELU, "--dim", "N=0"),
    "dim negative": (*RELU, "--dim", "N=-3"),
    "dim with a fraction": (*RELU, "--dim", "N=1.5"),
    "dim of words": (*RELU, "--dim", "N=many"),
    "dim twice": (*RELU, "--dim", "N=5", "--dim", "N=6"),
    "dim of 5000 digits": (*RELU, "--dim", f"N={GIANT}"),
    "dim of 10^18": (*RELU, "--dim", f"N={10**18}"),
    "dim of 2^63": (*RELU, "--dim", f"N={2**63}"),
    "dim in hex": (*RELU, "--dim", "N=0x10"),
    "dim infinite": (*RELU, "--dim", "N=inf"),
    "dim empty": (*RELU, "--dim", ""),
    "unknown dtype": (*RELU, "--dtype", "float23"),
    "dtype of another": ("gen", "--backend", "cpp", "--op", "cross_entropy", "--dtype", "float64"),
    "seed negative": (*RELU, "--seed", "-1"),
    "seed of words": (*RELU, "--seed", "lucky"),
    "attempts zero": (*RELU, "--attempts", "0"),
    "attempts of 5000 digits": (*RELU, "--attempts", GIANT),
    "threads zero": (*RELU, "--threads", "0"),
    "budget negative": (*RELU, "--budget-minutes", "-1"),
    "unknown stop": (*RELU, "--stop-after", "never"),
    "unknown where": (*RELU, "--where", "moon"),
    "unknown require": (*RELU, "--require", "luck"),
    "unknown flag": (*RELU, "--fast"),
    "unknown writer": (*RELU, "--writer", "me"),
    "replay of nothing": (*RELU, "--writer", "replay:none"),
    "command of nothing": (*RELU, "--writer", "command:"),
    "resume of nothing": (*RELU, "--resume", "none"),
    "resume of a path": (*RELU, "--resume", "../../../etc"),
    "mapping missing": (*RELU, "--mapping", "none.yaml"),
    "mapping a folder": (*RELU, "--mapping", "."),
    "logic missing": (*GEN, "--logic", "none.py"),
    "logic a folder": (*GEN, "--logic", "."),
    "logic a device": (*GEN, "--logic", "/dev/null"),
    "config missing": (*RELU, "--config", "none.yaml", "--writer", "llm"),
    "project missing": (*RELU, "--project", "none"),
    "no command": ("make",),
    "empty command": ("",),
    "verify of nothing": ("verify", "none"),
    "report of nothing": ("report", "none"),
    "explain of nothing": ("explain", "E999"),
    "show of nothing": ("show", "--op", "none", "--backend", "cpp"),
    "map of nothing": ("map", "--op", "none", "--backend", "cpp"),
    "runs of nothing": ("runs", "show", "none"),
    "ls of nothing": ("ls", "nothing"),
    "check of nothing": ("check", "none.py"),
    "check of a folder": ("check", "."),
    "batch of nothing": ("batch",),
    "batch missing": ("batch", "none.yaml"),
    "batch resume of nothing": ("batch", "--resume", "none"),
    "batch resume of a path": ("batch", "--resume", "../.."),
}


@pytest.mark.parametrize("case", FLAGS)
def test_flags(run, case):
    refused(run(*FLAGS[case]), 2)


@pytest.mark.few(8)
@pytest.mark.parametrize("way", WAYS_TO_END)
def test_a_logic_file(run, tmp_path, way):
    refused(run("check", str(written(tmp_path, top=WAYS_TO_END[way]))), 2)


@pytest.mark.few(3)
@pytest.mark.parametrize("way", FEW)
def test_a_task_body(run, tmp_path, way):
    refused(run("check", str(written(tmp_path, body=WAYS_TO_END[way]))), 2)


REFERENCES = {
    **{way: WAYS_TO_END[way] for way in ("exit", "os._exit", "raise", "endless", "segfault")},
    "none": "return None",
    "a list": "return [1.0]",
    "another shape": "return X[:1]",
    "one more dim": "return X[None]",
    "two results": "return X, X",
    "wrong arguments": "return reference()",
    "another name": "return Z",
}


# one that is late, that crashes, that gives something else, that raises
QUICK = ("endless", "segfault", "a list", "another name")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "way", [pytest.param(w, marks=() if w in QUICK else pytest.mark.wider) for w in REFERENCES]
)
def test_a_reference(run, tmp_path, way):
    path = written(tmp_path, reference=REFERENCES[way])
    refused(run(*GEN, "--logic", str(path), "--dim", "N=9"), 2)


@pytest.mark.wider
def test_a_reference_that_prints_leaves_json_alone(run, tmp_path):
    path = written(tmp_path, reference="print('x' * 1000)", top="print('y')", body="print('z')")
    code, out, _ = run(*GEN, "--logic", str(path), "--dim", "N=9", "--json")
    assert code == 0
    assert json.loads(out)["level"] in ("accurate", "attested")


LOGICS = {
    "empty": "",
    "blanks": "\n\n",
    "no Python": "]]]",
    "a NUL": "x = 1\x00",
    "a bomb of parentheses": DEEP,
    "a bomb of operators": "x = " + "-" * 50_000 + "1",
    "no operator": "import septran.tasklang as task\n",
    "two operators": OPERATOR
    + OPERATOR.partition("OPERATORS")[2].join(("MORE", "")).replace('name="scale"', 'name="other"'),
    "one name twice": OPERATOR + "MORE" + OPERATOR.partition("OPERATORS")[2],
    "a dim of 5000 digits": OPERATOR.replace('{"N": 8}', f'{{"N": 10**{len(GIANT)}}}'),
    "a dim of 2^70": OPERATOR.replace('{"N": 8}', '{"N": 2**70}'),
    "dims that lie": OPERATOR.replace('{"N": 8}', "type('D', (dict,), {'items': lambda s: 1/0})()"),
    "a name that is no name": OPERATOR.replace('"scale"', '"../../x"'),
    "a name of None": OPERATOR.replace('name="scale"', "name=None"),
    "no outputs": OPERATOR.replace('("Y",)', "()"),
    "a reference of 3": OPERATOR.replace("lambda X: X", "3"),
    "kind unknown": OPERATOR.replace("fn=lambda X: X", 'fn=lambda X: X, kind="nrm"'),
    "ulps of words": OPERATOR.replace("fn=lambda X: X", 'fn=lambda X: X, ulps="many"'),
}


@pytest.mark.few(6)
@pytest.mark.parametrize("case", LOGICS)
def test_logic_text(run, tmp_path, case):
    path = tmp_path / "logic.py"
    path.write_text(LOGICS[case], encoding="utf-8")
    refused(run(*GEN, "--logic", str(path)), 2)


BATCHES = {
    "empty": "",
    "a list": "[]",
    "a word": "relu",
    "no YAML": "ops: [",
    "a tab": "ops:\t[relu]\n\tx",
    "a NUL": BATCH + "\x00",
    "a bomb of brackets": f"ops: {DEEP}",
    "a bomb of aliases": "a: &a [x, x]\n"
    + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)
    ),
    "a number of 5000 digits": BATCH.replace("65", GIANT),
    "a tag": "ops: !!python/object/apply:os.system [id]\n",
    "a key twice": BATCH + "ops: [gelu]\n",
    "a key unknown": BATCH + "oops: [gelu]\n",
    "no operators": "backends: [cpp]\n",
    "no targets": "ops: [relu]\n",
    "an operator unknown": BATCH.replace("relu", "rellu"),
    "a target unknown": BATCH.replace("cpp", "cp"),
    "a dtype unknown": BATCH.replace("float32", "float23"),
    "a dtype of nobody": BATCH.replace("float32", "int8"),
    "an arch unknown": BATCH + "archs: [vax]\n",
    "a size of another": BATCH.replace("N: 65", "Q: 65"),
    "a size of zero": BATCH.replace("65", "0"),
    "a size of words": BATCH.replace("65", "many"),
    "workers of words": BATCH + "workers: many\n",
    "workers negative": BATCH + "workers: -1\n",
    "a writer unknown": BATCH + "writers: [me]\n",
    "where unknown": BATCH + "where: moon\n",
    "require unknown": BATCH + "require: [luck]\n",
    "all excluded": BATCH + "exclude: [{op: relu}]\n",
    "an exclusion of nothing": BATCH + "exclude: [{op: rellu}]\n",
    "an inclusion unknown": BATCH + "include: [{op: rellu, backend: cpp}]\n",
    "a logic missing": "logics: [none.py]\nbackends: [cpp]\n",
    "a budget of words": BATCH + "budget: {minutes: many}\n",
}


@pytest.mark.few(5)
@pytest.mark.parametrize("case", BATCHES)
def test_batch_files(run, tmp_path, case):
    (tmp_path / "batch.yaml").write_text(BATCHES[case], encoding="utf-8")
    refused(run("batch", "batch.yaml"), 2)


def test_a_selection_of_nothing(run, tmp_path):
    (tmp_path / "batch.yaml").write_text(BATCH, encoding="utf-8")
    refused(run("batch", "batch.yaml", "-k", "sofmax"), 5)


MAPPINGS = {
    "empty": "",
    "a list": "[]",
    "no YAML": "policy: [",
    "a bomb of brackets": DEEP,
    "a NUL": MAPPING + "\x00",
    "a number of 5000 digits": MAPPING + f"\nx: {GIANT}\n",
    "a key unknown": MAPPING + "\noops: 1\n",
    "a target unknown": "target: cp\n" + MAPPING.partition("\n")[2],
    "latin-1": "# \xe9\n",
}


@pytest.mark.parametrize("case", MAPPINGS)
def test_mapping_files(run, tmp_path, case):
    encoding = "latin-1" if case == "latin-1" else "utf-8"
    (tmp_path / "x.yaml").write_bytes(MAPPINGS[case].encode(encoding))
    refused(run(*RELU, "--mapping", "x.yaml"), 2)


SETTINGS = {
    "a bomb of brackets": f"attempts = {DEEP}",
    "no TOML": "attempts = = 3",
    "a word for a number": 'attempts = "many"',
    "a number of 5000 digits": f"attempts = {GIANT}",
    "negative": "attempts = -1",
    "a key unknown": "atempts = 3",
    "a NUL": "attempts = 3\x00",
}


@pytest.mark.parametrize("case", SETTINGS)
def test_project_settings(run, tmp_path, case):
    (tmp_path / "septran.toml").write_text(SETTINGS[case], encoding="utf-8")
    refused(run(*RELU), 2)


def test_a_folder_as_output_is_refused(run, tmp_path):
    refused(run(*RELU, "--dim", "N=9", "-o", str(tmp_path)), 2)


def test_the_null_device_stays_one(run):
    before = Path("/dev/null").stat().st_rdev
    assert run(*RELU, "--dim", "N=9", "-o", "/dev/null")[0] == 0
    assert Path("/dev/null").stat().st_rdev == before


def test_a_relative_home_works(run, tmp_path, monkeypatch):
    monkeypatch.setenv("SEPTRAN_HOME", "here/home")
    assert run(*RELU, "--dim", "N=9")[0] == 0
    assert (tmp_path / "here" / "home" / "runs" / "latest").exists()


DAMAGE = ("run.json", "events.jsonl", "gen.json", "verdict.json")


def test_one_damaged_run_does_not_stop_the_others(run, tmp_path):
    assert run(*RELU, "--dim", "N=9")[0] == 0
    runs = tmp_path / "home" / "runs"
    (good,) = (p for p in runs.iterdir() if p.is_dir() and not p.is_symlink())
    for number, content in enumerate((b"", b"{", b"[]", b"\xff\xfe", DEEP.encode(), b"null")):
        bad = runs / f"2026-01-0{number + 1}T00-00-00--relu--cpp--000{number}"
        bad.mkdir()
        for path in good.rglob("*.json"):
            (bad / path.name).write_bytes(content)
        (bad / "events.jsonl").write_bytes(content)
    for command in (("runs", "ls"), ("runs",), ("runs", "ls", "--json"), ("ls", "ops")):
        code, _, err = run(*command)
        assert code in (0, 2), (command, err[-500:])
    for bad in sorted(runs.glob("2026-01-*")):
        for command in (("runs", "show"), ("report",), ("verify",), ("explain",)):
            code, _, err = run(*command, bad.name)
            assert code in (1, 2, 3), (command, bad.name, err[-600:])
    assert run("report", good.name)[0] == 0


def test_there_are_enough_cases():
    cases = (FLAGS, WAYS_TO_END, FEW, REFERENCES, LOGICS, BATCHES, MAPPINGS, SETTINGS)
    assert sum(map(len, cases)) >= 150


@pytest.mark.wider
@pytest.mark.parametrize(
    "result",
    ["(X + X) * 1.001", pytest.param("(X + X).nan_to_num()", marks=pytest.mark.wider)],
)
def test_a_reference_that_is_a_little_off_is_blamed(run, tmp_path, result):
    path = written(tmp_path, reference=f"return {result}")
    code, out, err = run(*GEN, "--logic", str(path), "--dim", "N=65", "--json")
    assert code == 1, err[-500:]
    assert "the reference disagree" in json.loads(out)["culprit"]["why"]
