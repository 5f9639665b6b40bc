"""A layer imports only layers below it, and third parties stay behind their fences."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from tests.packaging.sources import PACKAGE, files, imports, relative

# from top to bottom; names on one line are siblings and do not import each other
LAYERS = (
    ("cli",),
    ("report",),
    ("environment",),
    ("batch",),
    ("run",),
    ("api",),
    ("call",),
    ("trial",),
    ("plan",),
    ("agent", "verify"),
    ("backends",),
    ("passes", "prove", "predict"),
    ("bind",),
    ("tasklang", "mapping", "frontend", "leafgate"),
    ("aten",),
    ("toolchain",),
    ("kernel", "machine"),
    ("speed",),
    ("ir",),
    ("reference",),
    ("domain", "in_place", "rounding", "stopwatch"),
    ("host",),
    (
        "accuracy",
        "gpu",
        "gpu_probe",
        "settings",
        "sandbox",
        "sandbox_launcher",
        "sandbox_warm",
        "intact",
        "seal",
        "surroundings",
        "own_tool",
    ),
    ("assets",),
    ("layered", "spantoml"),
    ("spanyaml",),
    ("errors", "outcome", "atomic", "document", "preloaded", "unserved", "started"),
)
DEPTH = {name: depth for depth, names in enumerate(LAYERS) for name in names}

# third party -> the only places that may import it (prefixes below septran/)
FENCES = {
    "click": ("cli/",),
    "rich": ("cli/", "run/progress"),
    "yaml": ("spanyaml.py",),
    "openai": ("agent/",),
    "islpy": ("prove/",),
    "optuna": ("run/",),
    "ray": ("batch/",),
    "mcp": ("environment/",),
    "openenv": ("environment/",),
    "verifiers": ("environment/",),
    "matplotlib": ("report/",),
    "cryptography": ("verify/", "run/"),
}
LATE = (
    "torch",
    "islpy",
    "tilelang",
    "triton",
    "tvm",
    "ml_dtypes",
    "pybind11",
    "jinja2",
    "matplotlib",
)
# scripts that only ever run in a child process, which needs what it imports
CHILD = ("/child/", "/interpreter/", "tilesim/", "verify/child")


def layer_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "septran" and len(parts) > 1 and parts[1] in DEPTH else None


def violations(path: Path, text: str | None = None) -> list[str]:
    name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if name not in DEPTH:
        return []
    found = []
    for each in imports(path, text):
        other = layer_of(each.module)
        if other is not None and other != name and DEPTH[other] <= DEPTH[name]:
            found.append(f"{relative(path)}:{each.line} {name} imports {each.module}")
    return found


# rooms inside backends/: prefix -> the modules of SepTran that it may import (a prefix of their names)
_FAMILIES = ("cpp", "cuda", "tilelang", "npuir", "triton", "dsa", "pallas")
_BELOW = tuple(
    f"septran.{name}"
    for depth, names in enumerate(LAYERS)
    for name in names
    if depth > DEPTH["backends"]
)
_ALONE = ("emulator", "simulator", "interpreter", "child")
ROOMS: dict[str, tuple[str, ...]] = {
    "backends/text/": (
        "septran.backends.text", "septran.ir", "septran.errors", "septran.tasklang.mapexpr", "septran.kernel",
        "septran.passes.name_leaves",
    ),
    "backends/reading/": (
        "septran.backends.reading", "septran.backends.text", "septran.ir", "septran.prove.printed", "septran.leafgate",
    ),
    "backends/judged/": (
        "septran.backends.judged", "septran.backends.base", "septran.backends.text", "septran.prove.foreign",
        "septran.leafgate", "septran.ir", "septran.kernel", "septran.document",
    ),
    "backends/device/": (
        "septran.backends.device", "septran.toolchain", "septran.kernel", "septran.gpu", "septran.errors",
    ),
    "backends/tilesim/": (),
    **{f"backends/{family}/{room}/": () for family in _FAMILIES for room in _ALONE},
    **{
        f"backends/{family}/": (
            f"septran.backends.{family}", "septran.backends.base", "septran.backends.text",
            "septran.backends.device", "septran.backends.tilesim", "septran.backends.reading",
            "septran.backends.judged", *_BELOW,
        )
        for family in _FAMILIES
    },
}  # fmt: skip
"""The first prefix that fits a file decides. Simulators and what runs in children import nothing of SepTran."""
OUTSIDE = ("septran.backends.base",)
"""What everything outside backends/ may import of it, besides what `septran.backends` has itself."""


def room_violations(path: Path, text: str | None = None) -> list[str]:
    place = path.relative_to(PACKAGE).as_posix()
    room = next((prefix for prefix in ROOMS if place.startswith(prefix)), None)
    found = []
    for each in imports(path, text):
        if not _is(each.module, "septran"):
            continue
        if room is not None:
            fine = any(_is(each.module, allowed) for allowed in ROOMS[room])
        elif place.startswith("backends/"):
            fine = True
        else:
            inside = any(_is(each.module, name) for name in _modules())
            fine = not inside or any(_is(each.module, name) for name in OUTSIDE)
        if not fine and each.module not in ("septran", "septran.backends"):
            found.append(f"{place}:{each.line} imports {each.module}")
    return found


@functools.cache
def _modules() -> frozenset[str]:
    """Return the dotted names of all modules below septran/backends."""
    names = (p.relative_to(PACKAGE.parent).with_suffix("").parts for p in files())
    return frozenset(
        ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        for parts in names
        if parts[1] == "backends" and len(parts) > 2 and parts[2] != "__init__"
    )


def test_rooms_import_what_they_may():
    assert sorted({v for path in files() for v in room_violations(path)}) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("backends/cpp/x.py", "from septran.backends.cuda.emit import emit"),
        ("backends/text/x.py", "from septran.backends.base import Backend"),
        ("backends/device/x.py", "def f():\n    import septran.backends.cpp.backend"),
        ("backends/tilesim/x.py", "from septran.errors import InternalError"),
        ("backends/triton/interpreter/x.py", "import septran.kernel"),
        ("run/x.py", "from septran.backends.cpp.backend import CPP"),
        ("verify/x.py", "from septran.backends import text"),
        ("run/x.py", "def f():\n    from septran.backends.device.gpu import require"),
    ],
)
def test_a_wrong_room_is_found(path, text):
    assert room_violations(PACKAGE / path, text)


def test_every_module_has_a_layer():
    tops = {p.relative_to(PACKAGE).parts[0].removesuffix(".py") for p in files()}
    assert tops - DEPTH.keys() - {"__init__", "__main__", "ops"} == set()


def test_layers_import_downwards():
    assert sorted({v for path in files() for v in violations(path)}) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("errors.py", "from septran import assets"),
        ("verify/x.py", "def f():\n    from septran.agent import chat"),
        ("passes/x.py", "import septran.backends.base"),
        ("toolchain/x.py", "from septran.backends.base import Backend"),
    ],
)
def test_a_wrong_import_is_found(path, text):
    assert violations(PACKAGE / path, text)


def test_operators_import_only_the_language():
    for path in files():
        if "ops" in path.parts:
            modules = {each.module.split(".")[0] for each in imports(path)}
            bad = modules - {"task_lang", "tasklang", "septran", "torch", "math", "__future__"}
            assert not bad, f"{relative(path)}: {bad}"


def _is(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def test_third_parties_stay_behind_their_fences():
    wrong = [
        f"{relative(path)}:{each.line} imports {package}"
        for path in files()
        for each in imports(path)
        for package, places in FENCES.items()
        if _is(each.module, package)
        and not path.relative_to(PACKAGE).as_posix().startswith(places)
        and not any(mark in path.as_posix() for mark in CHILD)
    ]
    assert sorted(set(wrong)) == []


def test_heavy_libraries_are_not_imported_at_start():
    wrong = [
        f"{relative(path)}:{each.line} imports {package}"
        for path in files()
        if not any(mark in path.as_posix() for mark in CHILD) and "ops" not in path.parts
        for each in imports(path)
        for package in LATE
        if each.at_start and _is(each.module, package)
    ]
    assert sorted(set(wrong)) == []
