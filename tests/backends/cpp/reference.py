"""The meaning of primitives in numpy float64, for comparison with generated leaves."""

from __future__ import annotations

import math

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])
FUNCTIONS = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": _erf,
    "abs": np.abs,
    "max": lambda *a: __import__("functools").reduce(np.maximum, a),
    "min": lambda *a: __import__("functools").reduce(np.minimum, a),
    "select": np.where,
}
OPS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}
JOIN = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def wide(a):
    return a if np.dtype(a.dtype).kind in "biu" else a.astype(np.float64)


def run_prims(prims, tensors, scalars=()):
    """Run primitives on a dict of arrays (in place, float64 for floats)."""
    scalars = dict(scalars)
    with np.errstate(all="ignore"):
        for p in prims:
            tensors[p.out] = np.array(_one(p, tensors, scalars))
    return tensors


def _one(p, t, scalars):
    out = t[p.out]
    match p.name:
        case "fill":
            return np.full(out.shape, p.attr("value"), np.float64)
        case "copy":
            return np.broadcast_to(t[p.ins[0]], out.shape)
        case "transpose":
            return t[p.ins[0]].transpose(p.attr("perm"))
        case "reduce" | "reduce_acc":
            got = OPS[p.attr("op")](t[p.ins[0]], axis=p.attr("axis"), keepdims=True)
            return JOIN[p.attr("op")](out, got) if p.name == "reduce_acc" else got
        case "map":
            env = {n: t[x] if x in t else scalars[x] for n, x in p.named}
            env |= {n: v for n, v in scalars.items() if n not in env}
            env |= FUNCTIONS | {"index": lambda d: np.indices(out.shape)[d]}
            return np.broadcast_to(eval(p.attr("expr"), {}, env), out.shape).astype(np.float64)
        case "gemm" | "gemm_acc":
            a, b = t[p.ins[0]], t[p.ins[1]]
            b = b.reshape(b.shape[-2:])
            a = a.reshape(-1, a.shape[-1])
            a = a.T if p.attr("trans_a") else a
            b = b.T if p.attr("trans_b") else b
            got = (a @ b).reshape(out.shape)
            return out + got if p.name == "gemm_acc" else got
        case "scan":
            x = t[p.ins[0]]
            flip = (lambda a: np.flip(a, p.attr("axis"))) if p.attr("reverse") else (lambda a: a)
            return flip(SCANS[p.attr("op")](flip(x), axis=p.attr("axis")))
        case "argreduce":  # the first NaN, else the first extreme
            x = t[p.ins[0]]
            pick = np.argmax if p.attr("op") == "max" else np.argmin
            return np.expand_dims(pick(x, axis=p.attr("axis")), p.attr("axis"))
        case "gather":
            found = np.zeros(out.shape)
            for at in np.ndindex(out.shape):
                k = _at(t[p.ins[1]], at)
                if 0 <= k < t[p.ins[0]].shape[p.attr("axis")]:
                    found[at] = _at(t[p.ins[0]], _put(at, p.attr("axis"), int(k)))
            return found
        case "scatter_acc":
            found = out.copy()
            for at in np.ndindex(t[p.ins[0]].shape):
                k = _at(t[p.ins[1]], at)
                if 0 <= k < out.shape[p.attr("axis")]:
                    to = _put(at, p.attr("axis"), int(k))
                    one = t[p.ins[0]][at]
                    op = p.attr("op")
                    found[to] = one if op == "last" else JOIN[op](found[to], one)
            return found
    raise AssertionError(p.name)


SCANS = {
    "sum": np.cumsum,
    "prod": np.cumprod,
    "max": np.maximum.accumulate,
    "min": np.minimum.accumulate,
}


def _at(a, index):
    """Return an element; dims of size 1 are broadcast."""
    return a[tuple(0 if n == 1 else i for n, i in zip(a.shape, index, strict=True))]


def _put(index, axis, k):
    return (*index[:axis], k, *index[axis + 1 :])
