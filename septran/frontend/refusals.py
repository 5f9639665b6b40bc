"""What to do where a module's file cannot be run, or its module not be exported, by what was said about it."""

from __future__ import annotations

import re

_FORM = "a module file defines Model, get_inputs and get_init_inputs (docs/import.md)"
_FILES = (
    (
        r"^(ModuleNotFound|Import)Error",
        "the file runs by itself, away from its folder: write what it imports into it, or install that as a package",
    ),
    (
        r"\bCUDA\b|\bcuda\b|\bNVIDIA\b",
        "make the module and its inputs on the CPU, whatever the target is: no .cuda() and no device=",
    ),
    (r"^(Syntax|Indentation|Tab)Error", "Python cannot read the file"),
    (
        r"^TypeError: .*__init__\(\) (missing|takes)",
        "get_init_inputs returns the list of what Model is made with, and get_inputs what it is called with",
    ),
)
NOTHING_HELP = (
    "`forward` has to return what it computes: tensors, or tuples, lists and dicts of these"
)
_VALUES = "data-dependent shapes and Python branches on values have no graph"
_EXPORTS = (
    (
        r"what has no form: ",
        "rows that values choose are worked on one by one and written or added back at their places, or summed (docs/import.md)",
    ),
    (
        r"asks whether a row is chosen|in place of those that values choose",
        "leave the condition out: where no row is chosen, nothing is written; or compute both and choose with `torch.where`",
    ),
    (
        r"MemoryError|can't allocate memory|not enough memory",
        "the file asks for more memory than there is: smaller inputs and weights say the same",
    ),
    (
        r"^bincount: the size",
        "`(x[:, None] == torch.arange(n)).sum(0)` counts n numbers, whatever x holds",
    ),
    (
        r"^(nonzero|nonzero_numpy|index|masked_select|argwhere|_?unique\w*): the size",
        "a kernel's sizes are known before it runs: keep every element (`torch.where(mask, x, 0)`), or take a number of them that is known (`torch.topk`)",
    ),
    (
        r"another kind of tensor",
        "a state keeps its shape and dtype: make it as large as it gets, and write a part of it",
    ),
    (
        r"uninitialized parameter|LazyModule",
        "give lazy layers their sizes: call the module once in __init__, or use the layer that is not lazy",
    ),
    (
        r"data-independent implementation|memory format option|Sparse|'meta'",
        "inputs and weights are dense tensors with values, not sparse and not on the meta device",
    ),
    (r"[Dd]ata-dependent|unbacked|-oo to int|\.item\(|\.tolist\(|GuardOn", _VALUES),
    (
        r"must be Tensor, not",
        "`forward` computes with what is no tensor: get_inputs returns the list of its arguments, tensors with values and "
        "not their shapes",
    ),
    (
        r"in output, which is not a known type",
        "return tensors, or tuples, lists, named tuples and dicts of these",
    ),
    (
        r"require grad|grad_fn",
        "`forward` is exported without gradients: write the derivative out, or compile the module without it",
    ),
    (
        r"^TypeError: .*(forward|missing|positional|keyword)",
        "`forward` is called with what get_inputs returns, in its order; other arguments need a default",
    ),
    (
        r"^(Runtime|Index|Value|Type|Attribute|Key|Name|Assertion|ZeroDivision|NotImplemented)(Error)",
        "`forward` raised this; call Model(*get_init_inputs())(*get_inputs()) in Python, and where that works write this "
        "line with torch's own operators",
    ),
)


def file_help(message: str) -> str:
    """Return what to do about an exception ("ValueError: ...") that a module's file raised."""
    return next((words for sign, words in _FILES if re.search(sign, message)), _FORM)


def export_help(message: str) -> str:
    """Return what to do about an exception that ended an export."""
    return next((words for sign, words in _EXPORTS if re.search(sign, message)), _VALUES)
