"""What torch computes beside somebody's kernels: what a user may allow, what was computed, and what is then no kernel's work."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from septran.aten.evaluate import ALLOWED
from septran.backends.base import Foreign
from septran.document import plain_text
from septran.errors import ConfigError, Span, closest
from septran.outcome import Level, Status
from septran.verify.verdict import Verdict

ALL = "all"
_MOST_BYTES = 1 << 20
_MOVES = frozenset(
    """
    alias arange broadcast_tensors chunk clone contiguous copy detach dropout empty empty_like expand expand_as flatten full full_like
    getitem lift_fresh_copy movedim narrow new_full new_ones new_zeros ones ones_like permute reshape scalar_tensor select slice
    split split_with_sizes squeeze swapaxes swapdims t to _to_copy transpose type_as unbind unflatten unsqueeze view view_as zeros zeros_like
    unsafe_view _unsafe_view
    """.split()
)
"""what a host function may do anyway, or what computes nothing"""
_FAMILIES = (
    ("matmul", "mm bmm linear addmm baddbmm addbmm mv addmv dot einsum inner tensordot bilinear"),
    ("conv", "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution"),
    ("relu", "clamp clamp_min threshold hardtanh clip maximum relu6"),
    ("softmax", "_softmax special_softmax"),
    ("add", "addcmul addcdiv"),
    ("square", "pow"),
    ("layer_norm", "native_layer_norm"),
    ("batch_norm", "_native_batch_norm_legit_no_training"),
    ("group_norm", "native_group_norm"),
)
"""operators that stand for each other when the reference's are counted"""
_FAMILY = {name: family for family, names in _FAMILIES for name in names.split()}


@dataclass(frozen=True, slots=True)
class Computed:
    """What torch computed in a call: (operator, line). copied: all that kernels stored, in every call, was an input or torch's."""

    ops: tuple[tuple[str, int], ...] = ()
    copied: bool = False

    def told(self) -> tuple[str, ...]:
        """Return each operator with its lines."""
        lines: dict[str, list[str]] = {}
        for name, line in dict.fromkeys(self.ops):
            lines.setdefault(name, []).append(str(line))
        return tuple(
            f"{n} (line{'s' if len(at) > 1 else ''} {', '.join(at)})" for n, at in lines.items()
        )


def allowed(names: Iterable[str], foreign: Foreign, file: Path) -> tuple[str, ...]:
    """Return the operators that torch may compute, each once.

    Raises:
        ConfigError: C170, torch has none of that name; C173, none of the file's Python is run.
    """
    found = tuple(dict.fromkeys(n.strip() for one in names for n in one.split(",") if n.strip()))
    if found and not (foreign.otherwise or foreign).mixes:
        raise ConfigError.of(
            "C173",
            f"{file}: no Python is run of this file, so torch cannot compute beside its kernels",
            Span(str(file), 1),
            help="judge the kernel alone: against a reference of what it computes, with what torch computes as an input",
        )
    for name in found:
        if name != ALL and name not in ALLOWED:
            raise ConfigError.of(
                "C170",
                f"--allow-torch: torch has no operator {name!r} that may run here{closest(name, (ALL, *ALLOWED))}",
                help="names as the file calls them (matmul, conv2d), or all",
            )
    return found


def computed(run_dir: Path) -> Computed:
    """Return what the child says torch computed; nothing where it says nothing."""
    path = run_dir / "child" / "torch.json"
    try:
        if path.is_symlink() or path.stat().st_size > _MOST_BYTES:
            return Computed()
        found = json.loads(plain_text(path))
        ops = tuple((str(name), int(line)) for name, line in found["ops"])
        return Computed(ops, found["calls"] == found["copied"])
    except FileNotFoundError:
        return Computed()


def with_torch(verdict: Verdict, found: Computed, reference: tuple[str, ...]) -> Verdict:
    """Return the verdict, which says what torch computed; rejected where that is all. reference: its operators, one for each use."""
    if not found.ops:
        return verdict
    names = ", ".join(found.told())
    mine = _counted(reference) - _counted(name for name, _ in found.ops)
    why = ""
    if not mine:
        why = f"torch computed each operator of the reference: {names}; no kernel did"
    elif found.copied:
        why = f"the kernels copied what torch computed, or the inputs, and computed nothing; torch computed {names}"
    if why and verdict.passed:
        return replace(
            verdict,
            level=Level.REJECTED,
            status=Status.REJECTED,
            code="V216",
            message=why,
            hint="at least one operator of the reference has to be the file's own kernel's",
        )
    return verdict.without(f"what torch computed: {names}")


def _counted(names: Iterable[str]) -> Counter[str]:
    found = (n.rstrip("_") for n in names if n not in _MOVES)
    return Counter(_FAMILY.get(name, name) for name in found)
