"""Every operator x target x dtype still compiles to the same kernel text, or the change was looked at.

One line a kernel in `tests/golden/kernel_hashes.json`: the hash of its main file and of its leaf
specs' keys. A refactoring must leave all of them alone; a change that means to alter kernels is
recorded with --update-golden, and the diff of that file names every kernel it altered.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from septran import backends
from septran.errors import SeptranError
from septran.kernel import leaf_specs
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve
from tests.backends.operators import all_operators
from tests.conftest import GOLDEN

FILE = GOLDEN / "kernel_hashes.json"
CELLS = [
    (name, arch)
    for name in sorted(dict(backends.BUILTIN))
    for arch in (backends.get(name).arches or ("",))
    if (name, arch)
    not in {("cpp", "native")}  # the same text as x86_64_v4 or less: not this machine's
]
BESIDE = {
    ("hip_c", "gfx950"),
    ("tilelang_hip", "gfx950"),
    ("triton_npu", "910b"),
    *(("dsa_c", arch) for arch in ("bm1684x2", "bm1688")),
    *(("triton_cuda", arch) for arch in ("sm_100", "sm_120")),
    *(("triton_hip", arch) for arch in ("gfx90a", "gfx950", "gfx1201")),
    *(("pallas_tpu", arch) for arch in ("v4", "v5p", "v6e", "tpu7x")),
}
"""Architectures that differ from another one of their target in figures only: slow, not tried in every run."""
WIDER = {("cpp", "riscv64"), ("cpp", "wasm32"), ("dsa_c", "bm1684x")}
QUICK = [
    pytest.param(*c, marks=pytest.mark.slow if c in BESIDE else [pytest.mark.wider] * (c in WIDER))
    for c in CELLS
]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def kernel_digest(op: str, backend: str, arch: str, dtype: str) -> str:
    """Return "kernel specs" digests, or the code of the refusal."""
    request = GenRequest(op=op, backend=backend, arch=arch or None, dtype=dtype)
    try:
        plan = resolve(request)
        lowered = lower_plan(plan)
        leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
        kernel = plan.backend.emit(lowered.program, leaves)
    except SeptranError as e:
        return " ".join(e.codes)
    text = dict(kernel.files)[kernel.main]
    specs = ",".join(sorted({spec.key for _, spec in leaf_specs(lowered.program)}))
    return f"{_digest(text)} {_digest(specs)}"


def _digests(backend: str, arch: str, *, few: bool) -> dict[str, str]:
    known = backends.get(backend).dtypes
    found: dict[str, str] = {}
    for op, (operator, _) in sorted(all_operators().items()):
        dtypes = [d for d in operator.dtypes if d in known]
        for dtype in dtypes[:1] if few else dtypes:
            found[f"{op} {dtype}"] = kernel_digest(op, backend, arch, dtype)
    return found


def _compare(backend: str, arch: str, request: pytest.FixtureRequest, *, few: bool) -> None:
    update = request.config.getoption("--update-golden")
    found = _digests(backend, arch, few=few and not update)
    stored: dict[str, Any] = json.loads(FILE.read_text()) if FILE.is_file() else {}
    label = f"{backend} {arch}".strip()
    if update:
        FILE.write_text(json.dumps({**stored, label: found}, indent=1, sort_keys=True) + "\n")
        return
    recorded = stored.get(label, {})
    gone = set() if few else recorded.keys() - found.keys()
    changed = sorted(gone | {k for k in found if found[k] != recorded.get(k)})
    assert not changed, f"{label}: {len(changed)} kernels differ: {', '.join(changed[:12])}"


@pytest.mark.few(2)
@pytest.mark.parametrize(("backend", "arch"), QUICK)
def test_kernels_are_as_recorded(backend: str, arch: str, request: pytest.FixtureRequest):
    """In each operator's first dtype; --update-golden records all of them."""
    _compare(backend, arch, request, few=True)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "arch"), CELLS)
def test_kernels_of_every_dtype_are_as_recorded(
    backend: str, arch: str, request: pytest.FixtureRequest
):
    _compare(backend, arch, request, few=False)
