"""Environments of their own, for compilers that bring another version of what SepTran itself uses.

`septran doctor --install TARGET` fills one with pip's --target under SEPTRAN_HOME. Nothing of it is imported here: only
child processes get its folder, at the end of their path.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from septran import assets
from septran.errors import EnvironmentProblem

VARIABLE = "SEPTRAN_PACKAGES"
"""Where a child finds the folder."""
_MINUTES = 30


def folder(target: str) -> Path:
    """Return where the packages of `target` lie, whether they are there or not."""
    return assets.home() / "environments" / target


def version(target: str, package: str) -> str:
    """Return the version of a package in the target's environment, "" when it is not there."""
    for info in sorted(folder(target).glob(f"{package}-*.dist-info")):
        return info.name.removesuffix(".dist-info").removeprefix(f"{package}-")
    return ""


def command(target: str, extra: str = "") -> str:
    """Return what a user types to fill the environment, with the packages of `extra`, too."""
    if extra:
        return f"septran doctor --install {target}+{extra}"
    return f"septran doctor --install {target}"


def session(target: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a child's `settings` (fields of `Sessions`) with what it needs to use the environment."""
    there = folder(target)
    return {
        **settings,
        "ro_paths": (*settings.get("ro_paths", ()), there),
        "env": (*settings.get("env", ()), (VARIABLE, str(there))),
    }


def missing(target: str, packages: tuple[str, ...]) -> tuple[str, ...]:
    """Return which of `packages` (NAME==VERSION, or a NAME of any version) the target's environment lacks."""
    lacking = []
    for requirement in packages:
        name, _, wanted = requirement.partition("==")
        have = version(target, re.sub(r"[-_.]+", "_", name))
        if not have or (wanted and have != wanted):
            lacking.append(requirement)
    return tuple(lacking)


def install(target: str, packages: tuple[str, ...], pythons: tuple[str, ...] = ()) -> Path:
    """Fill the target's environment with `packages` (pip requirements) and return its folder.

    pythons: the versions of Python for which all of them exist, () for any.

    Raises:
        EnvironmentProblem: V112, pip failed; its last line; or this Python is none of `pythons`.
    """
    there = folder(target)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if pythons and here not in pythons:
        raise EnvironmentProblem.of(
            "V112",
            f"{packages[0]} for {target} needs Python {' or '.join(pythons)}, this is {here}",
            help="install septran in a virtual environment of such a Python",
        )
    if why := pip("install", "--upgrade", "--target", str(there), *packages):
        raise EnvironmentProblem.of(
            "V112",
            f"pip could not install {' '.join(packages)} for {target}: {why}",
            help=" ".join(["pip install --target", str(there), *packages]),
        )
    return there


def pip(*words: str) -> str:
    """Run pip of this interpreter and return why it failed (its last line), "" when it did not."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words, "--disable-pip-version-check", "--quiet"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=60 * _MINUTES,
        check=False,
    )
    if not done.returncode:
        return ""
    lines = [line for line in done.stdout.splitlines() if line.strip()] or ["no reason given"]
    return lines[-1][:300]
