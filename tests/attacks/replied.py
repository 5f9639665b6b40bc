"""A writer's reply: the text is cut out of it, gated, and judged alone and in its kernel, as every road for replies has it judged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from septran import settings
from septran.backends import get
from septran.environment.step import Submission, step
from septran.environment.tasks import Asked
from septran.trial.place import place_of

if TYPE_CHECKING:
    from tests.attacks.attack import Attack


@dataclass(frozen=True)
class Asking:
    """The leaf that is asked for, and of which kernel."""

    backend: str
    op: str
    leaf: str
    dims: tuple[tuple[str, int], ...]
    dtype: str = "float32"

    def submission(self, body: str) -> Submission:
        asked = Asked(op=self.op, backend=self.backend, dims=dict(self.dims), dtype=self.dtype)
        return Submission(asked=asked, leaf=self.leaf, reply=f"```\n{body}\n```\n")


_RELU = ("relu", "relu_leaf", (("N", 67),))
TITLES = {
    "dsa reply": "Reply: C over a vendor library",
    "npuir reply": "Reply: TileLang NPU IR",
    "pallas reply": "Reply: Pallas",
    "ascend reply": "Reply: Triton",
    "hip reply": "Reply: HIP C++",
    "tilelang reply": "Reply: TileLang",
    "cpp reply": "Reply: C++",
    "cuda reply": "Reply: CUDA C++",
}
REPLIES = {
    "dsa reply": Asking("dsa_c", *_RELU),
    "npuir reply": Asking("tilelang_npuir", *_RELU),
    "pallas reply": Asking("pallas_tpu", *_RELU),
    "ascend reply": Asking("triton_npu", *_RELU),
    "hip reply": Asking("hip_c", *_RELU),
    "tilelang reply": Asking("tilelang_hip", *_RELU),
    "cpp reply": Asking("cpp", *_RELU),
    "cuda reply": Asking("cuda_c", *_RELU),
}
_ROWS, _PRODUCT = (("M", 19), ("N", 67)), (("M", 19), ("K", 53))


def _leaf(text: str) -> Asking:
    backend, op, leaf = text.split()
    dims = _PRODUCT if op == "gemv" else _ROWS if "row" in leaf or op in _OF_ROWS else _RELU[2]
    return Asking(backend, op, leaf, dims)


_OF_ROWS = ("softmax", "rmsnorm", "layernorm")


def asking(attack: Attack) -> Asking:
    """Return what an attack replies to: relu's leaf, or the one it names."""
    return _leaf(attack.of) if attack.of else REPLIES[attack.language]


def missing(attack: Attack) -> str:
    """Return what this machine lacks to run a reply, "" when nothing."""
    return str(place_of(get(asking(attack).backend), "", "emulated", 2).trouble or "")


def tried(attack: Attack, folder: Path) -> tuple[str, str]:
    """Return the codes of what a run shows and of what the gate refuses before."""
    found = step(
        asking(attack).submission(attack.body),
        settings=settings.load(project=folder),
        work=folder / "work",
    )
    if found.rung in ("accurate", "attested"):
        return "", ""
    assert found.rung != "unavailable", (attack.name, found.message)
    if found.status == "unusable":
        return "", f"{found.message} (V210)"
    return found.code or f"{found.status} {found.message[:300]}", ""
