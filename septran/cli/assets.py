"""`septran assets`: the data files in use, what the user's copies change, and how to get a copy."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from septran import assets
from septran.atomic import write_atomic
from septran.cli.options import common, complete, terminal
from septran.cli.printed import AssetDiff, AssetEjected, AssetList, AssetRow
from septran.errors import ConfigError

_NAMES = complete(lambda: [asset.name for asset in assets.listing()])


@click.group("assets", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List, compare and copy data files (project > user > packages > bundled)."""


@command.command("ls")
@click.argument("folder", required=False, type=click.Choice(assets.FOLDERS))
@common
def ls(folder: str | None) -> None:
    """List the files in use and the layer each comes from."""
    term = terminal()
    found = assets.listing(folder or "")
    if term.json:
        files = [AssetRow(name=a.name, layer=a.layer, path=str(a.path), sha=a.sha) for a in found]
        term.emit(AssetList(assets=files))
        return
    term.table(("file", "layer", "sha"), [(a.name, a.layer, a.sha) for a in found])


@command.command("diff")
@click.argument("name", required=False, shell_complete=_NAMES)
@common
def diff(name: str | None) -> None:
    """Show how own files differ from the bundled ones they hide."""
    term = terminal()
    names = [name] if name else [a.name for a in assets.listing() if a.layer != "bundled"]
    changes = {}
    for each in names:
        versions = assets.every(each)
        if not versions:
            assets.find(each)  # raises C001 with the nearest names
        changes[each] = _difference(versions[0], versions[-1])
    text = "".join(changes.values()) or "no own files differ from the bundled ones\n"
    term.show(AssetDiff(diff=changes), text)


def _difference(ours: assets.Asset, base: assets.Asset) -> str:
    if base.layer != "bundled":
        return f"{ours.name}: only in {ours.layer}\n"
    lines = difflib.unified_diff(
        base.read().splitlines(keepends=True),
        ours.read().splitlines(keepends=True),
        f"bundled/{ours.name}",
        f"{ours.layer}/{ours.name}",
    )
    return "".join(lines)


@command.command("eject")
@click.argument("name", shell_complete=_NAMES)
@click.option("--force", is_flag=True, help="Replace an existing copy.")
@common
def eject(name: str, *, force: bool) -> None:
    """Copy a bundled file into the project, where edits take effect."""
    term = terminal()
    source = assets.find(name, among=(assets.Layer("bundled", assets.bundled()),))
    project = assets.find_project()
    if project is None:
        raise ConfigError.of(
            "C005",
            "there is no project here to copy the file into",
            help="`septran init .` makes this folder a project",
        )
    target: Path = project / name
    if target.exists() and not force:
        raise ConfigError.of("C006", f"{target} exists already", help="--force replaces it")
    write_atomic(target, source.path.read_bytes())
    term.show(AssetEjected(ejected=str(target)), str(target))
