"""Compiles and runs the HIP documentation's blocks as leaf bodies: clang for `compile`, the emulation for `run`."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from septran.agent.docs import Block
from septran.backends.cuda.dialect import HIP
from septran.backends.cuda.emit import header
from septran.backends.device import code_object
from septran.leafgate import Refusal
from tests.dsl_docs.runner import Outcome
from tests.dsl_docs.runner_cuda_c import CASES, emulated, kernel_text, leaf_text, undefined

KINDS = ("compile", "run")


def check(block: Block, folder: Path) -> Outcome:
    """Return whether the block is accepted as a leaf body and, for run, computes its case."""
    case = CASES[block.attrs.get("case", "gemm_acc")]
    try:
        leaf = leaf_text(block.code, case, HIP)
    except Refusal as refused:
        return Outcome(False, refused.sentence)
    if block.test != "compile":
        return emulated(leaf, case, folder, HIP)
    tools = code_object.tools("gfx942")
    if isinstance(tools, str):
        pytest.skip(tools)
    for name in HIP.headers:
        shutil.copyfile(header(HIP, name), folder / name)
    main = folder / "block.hip"
    main.write_text(kernel_text(leaf, case, HIP), encoding="utf-8")
    done = code_object.assemble(tools, "gfx942", main)
    return Outcome(done.code == 0 and code_object.made(main), done.output)


def versions() -> Mapping[str, str]:
    """Return clang's version."""
    tools = code_object.tools("gfx942")
    return {} if isinstance(tools, str) else {"clang": tools.name.removeprefix("clang ")}


def unknown_names(text: str) -> set[str]:
    """Return `st::` names that the runtime does not define."""
    return undefined(text, HIP)
