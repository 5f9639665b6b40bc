"""What torch does at length while a module is exported, though nothing of it reaches the graph.

Recurrent layers stay whole, yet torch finds the shapes of their results by walking all steps (20 s for 512 steps of four layers).
Functions that look at values only to raise an error (a negative variance) cannot be exported at all; a graph has no errors.
Layers of transformers look at a mask to find a faster way, and have operators of their own for it; what they compute is the same.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

_TOLD = ("torch._subclasses.fake_tensor", "torch.export._trace")
"""Loggers that print a traceback before the exception that an export ends with, which is told."""
_LAYERS = ("gru", "lstm", "rnn_tanh", "rnn_relu")


@contextlib.contextmanager
def taken() -> Iterator[None]:
    """Export with these; torch is as before behind it."""
    with contextlib.ExitStack() as stack:
        for name in _LAYERS:
            stack.enter_context(_by_shape(getattr(torch.ops.aten, name).input))
        stack.enter_context(_unchecked())
        stack.enter_context(_in_parts())
        for name in _TOLD:
            stack.enter_context(_silent(logging.getLogger(name)))
        yield


@contextlib.contextmanager
def _silent(log: logging.Logger) -> Iterator[None]:
    def nothing(_: logging.LogRecord) -> bool:
        return False

    log.addFilter(nothing)
    try:
        yield
    finally:
        log.removeFilter(nothing)


@contextlib.contextmanager
def _by_shape(operator: Any) -> Iterator[None]:
    before, table = dict(operator.py_kernels), torch._decomp.decomposition_table
    rule = table.get(operator)
    for key, kernel in before.items():
        operator.py_kernels[key] = _shaped(kernel)
    if rule is not None:
        table[operator] = _shaped(rule)
    operator._dispatch_cache.clear()
    try:
        yield
    finally:
        operator.py_kernels.update(before)
        if rule is not None:
            table[operator] = rule
        operator._dispatch_cache.clear()


def _shaped(kernel: Any) -> Any:
    def run(x: Any, hx: Any, params: Any, *how: Any, **named: Any) -> Any:
        flags = dict(zip(_FLAGS, how, strict=False)) | named
        if not isinstance(x, FakeTensor) or (flags.get("dropout") and flags.get("train")):
            return kernel(x, hx, params, *how, **named)
        states = list(hx) if isinstance(hx, list | tuple) else [hx]
        width = states[0].shape[-1] * (2 if flags.get("bidirectional") else 1)
        return (
            x.new_empty((*x.shape[:-1], width)),
            *(s.new_empty(tuple(s.shape)) for s in states),
        )

    return run


_FLAGS = ("has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")
"""Arguments of a recurrent layer behind its weights."""


@contextlib.contextmanager
def _unchecked() -> Iterator[None]:
    places = [
        (torch.distributions.Distribution, "_validate_args", False),
        (torch.nn.functional, "gaussian_nll_loss", gaussian_nll_loss),
    ]
    for owner in (torch, torch.Tensor):
        places += [
            (owner, "cov", _unweighted(cov, torch.cov)),
            (owner, "corrcoef", corrcoef),
        ]
    before = [getattr(owner, name) for owner, name, _ in places]
    for owner, name, value in places:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for (owner, name, _), value in zip(places, before, strict=True):
            setattr(owner, name, value)


@contextlib.contextmanager
def _in_parts() -> Iterator[None]:
    """Export layers of transformers as the operators that they are made of; a mask counts as it is given, not as what it resembles."""
    layers, fast = torch.nn.modules.transformer, torch.backends.mha.get_fastpath_enabled()
    before = layers._detect_is_causal_mask
    layers._detect_is_causal_mask = causal_if_said
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        layers._detect_is_causal_mask = before
        torch.backends.mha.set_fastpath_enabled(fast)


def causal_if_said(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Return whether a caller says that `mask` is the causal one; torch compares the values where nobody says."""
    return is_causal is True


def _unweighted(short: Any, own: Any) -> Any:
    def run(x: Any, *how: Any, **named: Any) -> Any:
        plain = len(how) <= 1 and not named.keys() - {"correction"}
        return (short if plain else own)(x, *how, **named)

    return run


def cov(x: Any, correction: int = 1) -> Any:
    """Return the covariances of the rows of x [variables, observations], or the variance of x [observations]."""
    lines = x if x.ndim > 1 else x.reshape(1, -1)
    lines = lines - lines.mean(1, keepdim=True)
    found = lines @ lines.mH / max(lines.shape[1] - correction, 0)
    return found if x.ndim > 1 else found.reshape(())


def corrcoef(x: Any) -> Any:
    """Return the correlations of the rows of x [variables, observations], from -1 to 1."""
    if x.ndim < 2:
        return cov(x) / cov(x)
    found = cov(x)
    spread = found.diagonal().sqrt()
    found = found / spread.unsqueeze(1) / spread.unsqueeze(0)
    return found if x.is_complex() else found.clamp(-1, 1)


def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """Return torch's loss for variances that are none of them negative."""
    if not isinstance(var, float) and var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif input.shape[:-1] != var.shape[:-1] or var.shape[-1] != 1:
            both = zip(input.shape, var.shape, strict=False)
            if input.ndim != var.ndim or sum(a != b for a, b in both) != 1 or 1 not in var.shape:
                raise ValueError("var is of incorrect size")
    if isinstance(var, float):
        var = var * torch.ones_like(input)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    var = var.clamp(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * 1.8378770664093453
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss
