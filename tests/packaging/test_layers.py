"""A layer imports only layers below it, and third parties stay behind their fences."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.sources import PACKAGE, files, imports, relative

# from top to bottom; names on one line are siblings and do not import each other
LAYERS = (
    ("cli",),
    ("report",),
    ("batch",),
    ("run",),
    ("api",),
    ("trial",),
    ("plan",),
    ("agent", "verify"),
    ("backends",),
    ("passes", "prove"),
    ("bind",),
    ("tasklang", "mapping"),
    ("kernel", "machine"),
    ("ir",),
    ("reference",),
    ("domain", "stopwatch"),
    ("host",),
    ("accuracy", "gpu", "gpu_probe", "settings", "sandbox", "sandbox_launcher"),
    ("assets",),
    ("layered", "spantoml"),
    ("spanyaml",),
    ("errors",),
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
