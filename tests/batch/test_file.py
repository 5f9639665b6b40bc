"""The batch file: what is wrong in it is said with file, line and the nearest name; what is right expands."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import assets, backends, settings
from septran.batch.cells import expand
from septran.batch.choose import selector
from septran.batch.file import load_batch
from septran.errors import ConfigError
from tests.backends.operators import all_operators


def write(folder: Path, text: str) -> Path:
    path = folder / "b.yaml"
    path.write_text(text)
    return path


def cells(folder: Path, text: str) -> list[str]:
    return [cell.id for cell in expand(load_batch(write(folder, text)), settings.load())]


@pytest.mark.parametrize(
    ("text", "code", "line", "says"),
    [
        ("ops: [gemm]\nbackend: [cpp]\n", "C060", 2, "did you mean 'backends'"),
        ("ops: [gemm]\nexclude:\n- {opp: gemm}\n", "C060", 3, "did you mean 'op'"),
        ("budget: {minute: 3}\n", "C060", 1, "did you mean 'minutes'"),
        ("ops: [gemm]\ndims: [{M: 0}]\n", "C061", 2, "M: 0"),
        ("ops: [gemm]\ndims: [sampel]\n", "C061", 2, "sampel"),
        ("ops: {a: b}\n", "C061", 1, "list of words"),
        ("workers: two\n", "C061", 1, "whole number"),
        ("workers: true\n", "C061", 1, "whole number"),
        ("time: 3\n", "C061", 1, "true or false"),
        ("require: [devise]\n", "C061", 1, "did you mean 'device'"),
        ("ops: [relu]\nwhere: devise\n", "C061", 2, "did you mean 'device'"),
        ("where: [device]\n", "C061", 1, "is not one of auto, device, emulated"),
        ("include:\n- {op: gemm}\n", "C061", 2, "names its backend"),
        ("- gemm\n", "C061", 1, "mapping"),
    ],
)
def test_mistakes_in_the_file(tmp_path, text, code, line, says):
    with pytest.raises(ConfigError) as caught:
        load_batch(write(tmp_path, text))
    (found,) = caught.value.diagnostics
    assert (found.code, found.span.line if found.span else 0) == (code, line)
    assert says in found.message


def test_all_mistakes_at_once(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_batch(write(tmp_path, "opps: 1\nworkers: -1\ntime: 2\n"))
    assert caught.value.codes == ("C060", "C061", "C061")


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("ops: [gemmm]\nbackends: [cpp]\n", "C061", "did you mean 'gemm'"),
        ("ops: [gemm]\nbackends: [cuda_x]\n", "C061", "names nothing"),
        ("ops: [relu]\nbackends: [cpp]\ndims: [{Q: 3}]\n", "C061", "Q"),
        ("ops: [relu]\nbackends: [cpp]\nexclude: [{op: 'r*'}]\n", "C062", "no cell"),
        ("ops: [cross_entropy]\nbackends: [cpp]\ndtypes: [float64]\n", "C061", "'float64'"),
        ("include: [{op: gemmm, backend: cpp}]\n", "C061", "did you mean 'gemm'"),
    ],
)
def test_words_that_fit_nothing(tmp_path, text, code, says):
    with pytest.raises(ConfigError) as caught:
        cells(tmp_path, text)
    assert caught.value.codes == (code,)
    assert says in caught.value.diagnostics[0].message


def test_the_shipped_matrix_has_every_operator_on_every_arch():
    """At sample and odd sizes; the archs are those that have a machine file."""
    batch = load_batch(assets.bundled() / "configs/batches/all-ops-all-archs.yaml")
    found = [c.request for c in expand(batch, settings.load())]
    archs = {(r["backend"], r.get("arch") or "") for r in found}
    assert archs == {
        (name, arch) for name in backends.names() for arch in backends.get(name).arches or ("",)
    }
    machines = {f"{backends.get(name).machine(arch)}.yaml" for name, arch in archs}
    assert machines == {a.name.rpartition("/")[2] for a in assets.listing("configs/machines")}
    sizes = {
        (name, frozenset(dims.items()))
        for name, (operator, _) in all_operators().items()
        for dims in (operator.dims, *operator.odd_dims)
    }
    mine: dict[tuple[str, str], set[object]] = {}
    for r in found:
        target = r["backend"], r.get("arch") or ""
        mine.setdefault(target, set()).add((r["op"], frozenset(r["dims"].items())))
    assert all(had == sizes for had in mine.values())


def test_a_matrix(tmp_path):
    found = cells(
        tmp_path,
        "ops: [relu, 'row_*']\nbackends: [cpp]\ndims: [{N: 9}, {M: 5}]\ndtypes: [float32, bfloat16]\n"
        "exclude: [{op: 'row_m*'}, {op: relu, dtype: bfloat16}]\n"
        "include: [{op: gemm, backend: cpp, dims: {M: 8, N: 8, K: 8}, dtype: float64}]\n",
    )
    assert sorted(found) == [
        "gemm/cpp.native/M=8,N=8,K=8/float64/library",
        "relu/cpp.native/N=9/float32/library",
        "row_sum/cpp.native/M=256,N=9/bfloat16/library",
        "row_sum/cpp.native/M=256,N=9/float32/library",
        "row_sum/cpp.native/M=5,N=1024/bfloat16/library",
        "row_sum/cpp.native/M=5,N=1024/float32/library",
    ]


def test_keys_tell_what_differs(tmp_path):
    text = "ops: [relu]\nbackends: [cpp]\ndims: [{N: 9}]\ndtypes: [float32]\n"
    here = settings.load()

    def keys(more: str = "", change: tuple[str, str] = ("", "")) -> set[str]:
        path = write(tmp_path, text.replace(*change) + more)
        return {cell.key for cell in expand(load_batch(path), here)}

    assert keys() == keys("workers: 3\n")
    assert not keys() & keys("time: false\n")
    assert not keys() & keys(change=("N: 9", "N: 8"))
    assert not keys() & keys("writers: [auto]\n")
    assert not keys() & keys("require: [device]\n")


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("gemm", True),
        ("GEMM", True),
        ("relu", False),
        ("not relu", True),
        ("gemm and float16", False),
        ("gemm and (float16 or float32)", True),
        ("relu or not gemm", False),
        ("not (relu or gemm)", False),
        ("M=64", True),
    ],
)
def test_selection(expression, chosen):
    assert selector(expression)("gemm/cpp.native/M=64/float32/library") is chosen


@pytest.mark.parametrize(
    "expression", ["", "and", "gemm and", "(gemm", "gemm)", "not", "a b", "()"]
)
def test_bad_selection(expression):
    with pytest.raises(ConfigError) as caught:
        selector(expression)
    assert caught.value.codes == ("C063",)


@pytest.mark.parametrize("where", [None, "auto", "device", "emulated"])
def test_where_reaches_every_cell_and_its_key(tmp_path, where):
    text = "ops: [relu]\nbackends: [cpp]\ninclude: [{op: gemm, backend: cpp}]\n"
    (plain, _), found = (
        expand(load_batch(write(tmp_path, text + more)), settings.load())
        for more in ("", f"where: {where}\n" if where else "")
    )
    assert [cell.request["where"] for cell in found] == [where or "auto"] * 2
    assert (found[0].key == plain.key) == (where in (None, "auto"))  # a result is of its place


def test_a_size_may_stay_open(tmp_path: Path):
    text = "ops: [softmax]\nbackends: [cpp]\ndims: [{M: 'dynamic:64', N: 24}, {M: dynamic}, {M: 3, N: 24}]\n"
    one, two, three = expand(load_batch(write(tmp_path, text)), settings.load())
    assert one.id.startswith("softmax/cpp.native/M=dynamic:64,N=24/")
    assert (one.request["dims"], one.request["dynamic"]) == ({"M": 64, "N": 24}, ["M"])
    assert two.request["dims"]["M"] > 1 and two.request["dynamic"] == ["M"]
    assert "dynamic" not in three.request
    rest = expand(
        load_batch(write(tmp_path, text + "exclude: [{dims: {M: dynamic}}]\n")), settings.load()
    )
    assert [c.id for c in rest] == [three.id]


def test_an_open_size_is_spelt_right(tmp_path: Path):
    with pytest.raises(ConfigError) as e:
        load_batch(write(tmp_path, "ops: [softmax]\nbackends: [cpp]\ndims: [{M: dynamik}]\n"))
    assert e.value.codes == ("C061",) and "dynamic or dynamic:TILES" in str(e.value)
