"""`septran init`: a project folder with a commented septran.toml and an operator to start from."""

from __future__ import annotations

import json
from pathlib import Path

import click

from septran.atomic import write_atomic
from septran.cli.files import OUTPUT_FOLDER
from septran.cli.options import common, terminal
from septran.cli.printed import Started
from septran.errors import ConfigError
from septran.layered import Key
from septran.settings import SCHEMA

_LOGIC = '''\
"""Z = 2.5 X + Y: the algorithm once, with no hardware word in it.

    septran gen --logic logic/axpy.py --backend cpp
"""

import septran.tasklang as task
from septran.reference import Reference


@task.define(leaf=True)
def scale_add(Z, X, Y):
    task.call_primitive("map", Z, expr="2.5 * x + y", x=X, y=Y)


@task.define
def axpy(Z, X, Y):
    n = task.tunable("block_size")
    Zp = task.partition(Z, by="blocks", shape=(n,))
    Xp = task.partition(X, by="blocks", shape=(n,))
    Yp = task.partition(Y, by="blocks", shape=(n,))
    for i in task.parallel_range(Zp.shape):
        task.launch(scale_add, Zp[i], Xp[i], Yp[i])


OPERATORS = (
    task.Operator(
        name="axpy",
        about="Z = 2.5 X + Y",
        entry=axpy,
        tensors={"Z": "N", "X": "N", "Y": "N"},
        outputs=("Z",),
        dims={"N": 100_000},
        odd_dims=({"N": 10_007}, {"N": 1}),
        reference=Reference(fn=lambda X, Y: 2.5 * X + Y, kind="elementwise"),
    ),
)
'''


def sample_toml() -> str:
    """Return a septran.toml in which every setting stands commented out with its default."""
    lines = [
        "# SepTran project. Files in agents/, configs/, dsl_docs/, mappings/ and verify_templates/",
        "# beside this one hide the bundled files of the same name (`septran assets eject`).",
        "",
    ]
    for name, key in SCHEMA.items():
        if not isinstance(key, Key):
            continue
        if key.about:
            lines.append(f"# {key.about}")
        if key.choices:
            lines.append(f"# one of: {', '.join(str(c) for c in key.choices)}")
        default = "" if key.default is None else f" {json.dumps(key.default)}"
        lines.extend([f"# {name} ={default}", ""])
    return "\n".join(lines).rstrip() + "\n"


@click.command("init")
@click.argument("folder", default=".", type=OUTPUT_FOLDER)
@common
def command(folder: Path) -> None:
    """Start a project in FOLDER."""
    term = terminal()
    toml = folder / "septran.toml"
    if toml.exists():
        raise ConfigError.of("C006", f"{toml} exists already", help="this folder is a project")
    logic = folder / "logic" / "axpy.py"
    files = {toml: sample_toml(), folder / ".gitignore": ".septran/\n"}
    files[logic] = _LOGIC
    written = [write_atomic(path, text) for path, text in files.items() if not path.exists()]
    if term.json:
        term.emit(Started(files=[str(path) for path in written]))
    else:
        term.result("".join(f"{path}\n" for path in written))
        term.note("next: septran gen --logic logic/axpy.py --backend cpp")
