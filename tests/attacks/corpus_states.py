"""Whole files that ask what their tensors are beside what they hold, and how many threads there may be; and honest ones that ask, too.

Each doubles a vector.
"""

from __future__ import annotations

from dataclasses import replace

from tests.attacks.attack import Attack
from tests.attacks.corpus_files import cpp
from tests.attacks.corpus_files import triton as triton_file

THROUGH = "d1a684a"


def triton(name: str, what: str, when: str = "False", **more: str | bool) -> Attack:
    made = triton_file(name, what, when=when, through=False, **more)  # type: ignore[arg-type]
    return made if made.honest else replace(made, through=THROUGH)


_OMP = "#include <omp.h>\n"
_TEAM = "int t = 1;\n  #pragma omp parallel\n  #pragma omp single\n  t = omp_get_num_threads();"
ALL = (
    triton("OS01", "wrong where gradients are wanted", "x.requires_grad"),
    triton("OS02", "wrong for a parameter", "type(x) is not torch.Tensor"),
    triton("OS03", "wrong for a result of another operator", "x.grad_fn is not None"),
    triton("OS04", "wrong for what is no leaf", "not x.is_leaf"),
    triton("OS05", "wrong for a part of a larger tensor", "x.storage_offset() > 0"),
    triton("OS06", "right on a processor only", "not x.is_cpu"),
    triton("OS07", "asks the type of its tensor", "'cuda' in x.type()"),
    triton("OS08", "asks whether the host's copy is another tensor", "x.cpu() is not x"),
    triton("OS09", "asks for the host's copy by another word", "x.to('cpu').data_ptr() != x.data_ptr()"),
    triton("OS10", "asks whether its memory is shared", "x.is_shared()"),
    triton("OS11", "asks what torch was built for", "torch.backends.cuda.is_built()", text_only=True),
    triton("OS12", "asks for an accelerator", "torch.accelerator.is_available()", text_only=True),
    triton("OS13", "wrong in inference mode", "x.is_inference()", text_only=True),
    triton("OS14", "wrong with another default dtype", "torch.get_default_dtype() != torch.float32", text_only=True),
    triton("OS15", "wrong where autocast is on", "torch.is_autocast_enabled()", text_only=True),
    triton("OS16", "wrong where torch compiles it", "torch.compiler.is_compiling()", text_only=True),
    triton("OS17", "wrong where memory that nobody wrote is zero", line="x * FACTOR + tl.where(tl.load(y_ptr + at, mask=at < n) == 0.0, 1.0, 0.0)"),
    triton("OS51", "keeps its input where gradients are wanted", host="kept = x if x.requires_grad else None", honest=True),
    triton("OS52", "takes no gradients, and says so", host="assert not (x.requires_grad and torch.is_grad_enabled()), 'no backward'", honest=True),
    triton("OS53", "takes a parameter's data", host="x = x.data if isinstance(x, torch.nn.Parameter) else x", honest=True),
    triton("OS54", "copies what is no multiple of four away from where it begins", host="x = x.clone() if x.storage_offset() % 4 else x", honest=True),
    cpp("JP25", "wrong with more than three hundred threads", before=_OMP, when="omp_get_max_threads() > 300", commit=THROUGH),
    cpp("JP26", "wrong in a team of seven hundred", before=_OMP, body=_TEAM, when="t > 700", commit=THROUGH),
)  # fmt: skip
