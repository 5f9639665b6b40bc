"""How large a machine's memories are stands in its file only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from septran import spanyaml
from septran.assets import listing
from septran.machine import load_machine
from tests.packaging.sources import PACKAGE, tree

# what runs in a child and imports nothing of ours: it holds the figures a second time
CHILDREN = {
    "tilesim/gpu.py", "tilesim/npu.py", "triton/interpreter/driver.py", "judged/child/torch_card.py",
}  # fmt: skip
# the same number by chance: the scratch tile that a leaf written in C may use
OTHERS = {"dsa/passes/expand_leaves.py"}


def capacities() -> set[int]:
    found: set[int] = set()
    for asset in listing("configs/machines"):
        machine = load_machine(asset.name.removeprefix("configs/machines/").removesuffix(".yaml"))
        found |= {m.capacity for m in machine.memories.values() if m.capacity is not None}
    return found


def numbers(tree: ast.AST) -> Iterator[int]:
    """Every whole number of a module, products of numbers multiplied out."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=int(value)) if not isinstance(node.value, bool):
                yield value
            case ast.BinOp(
                left=ast.Constant(value=int(a)), op=ast.Mult(), right=ast.Constant(value=int(b))
            ):
                yield a * b


def test_no_backend_repeats_the_size_of_a_memory():
    sizes = capacities()
    assert {166912, 232448, 65536, 524288} <= sizes
    root = PACKAGE / "backends"
    holding = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if sizes & set(numbers(tree(path)))
    }
    assert holding == CHILDREN | OTHERS


def figures() -> set[float]:
    """Every number of a machine file that nobody writes by chance: large, and neither round nor a power of two."""
    found: set[float] = set()

    def collect(value: object) -> None:
        if isinstance(value, dict | list):
            for each in value.values() if isinstance(value, dict) else value:
                collect(each)
        elif isinstance(value, int | float) and value >= 2000:
            whole = int(value)
            if whole & (whole - 1) and whole % 1000:
                found.add(value)

    for asset in listing("configs/machines"):
        collect(spanyaml.load(asset.path).value)
    return found


# what a language allows whatever the machine: a grid's y and z in CUDA, memory of a block that a kernel need not ask for
LANGUAGE = {
    "backends/tilelang/passes/settle.py": 65535, "backends/cuda/launch.py": 49152, "cli/serve.py": 65535,
}  # fmt: skip


def test_no_module_repeats_a_figure_of_a_machine() -> None:
    """The whole program: sizes, rates and counts alike."""
    known = figures()
    assert {166912, 232448, 65535, 233472} <= known
    bad = {
        (path.relative_to(PACKAGE).as_posix(), number)
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).as_posix().removeprefix("backends/") not in CHILDREN
        for number in known & set(numbers(tree(path)))
    }
    assert bad == set(LANGUAGE.items())


def test_the_simulators_hold_what_the_machine_files_say():
    from septran.backends.tilesim.gpu import SHARED_LIMIT
    from septran.backends.tilesim.npu import ASCEND_CAPACITY

    for arch, limit in SHARED_LIMIT.items():
        names = {a.name for a in listing("configs/machines") if a.name.endswith(f".{arch}.yaml")}
        for name in names:
            machine = load_machine(name.removeprefix("configs/machines/").removesuffix(".yaml"))
            assert machine.capacity("SHARED") == limit, name
    from septran.backends.judged.child.torch_card import CARDS

    for capability, card in CARDS.items():
        machine = load_machine(f"triton_cuda.sm_{capability}")
        assert card.shared[0] == machine.capacity("SHARED"), capability
        assert card.threads == machine.limits["resident_threads"], capability
    npu = load_machine("tilelang_npuir.910b").limits
    assert {m: ASCEND_CAPACITY[m] for m in ("UB", "L1", "L0C")} == {
        "UB": npu["ub_bytes"],
        "L1": npu["l1_bytes"],
        "L0C": npu["l0c_bytes"],
    }
