"""Kernels for test_lockstep, run in a child: `python lockstep_kernels.py together|alone NAME...`."""

import os
import sys

import septran_triton_interp as interp
import septran_triton_lockstep as lockstep
import torch
import triton
import triton.language as tl

N = 40
"""Programs per launch: more than the first group."""


@triton.jit
def ways(X, Y, n):
    """Adds to its own element first, then takes one of several ways."""
    p = tl.program_id(0)
    at = p * 8 + tl.arange(0, 8)
    x = tl.load(X + at)
    tl.store(X + at, x + 1.0)
    total = tl.sum(x, 0)
    for k in range(p % 5):
        total += tl.load(X + p * 8 + k)
    if p % 3 == 1:
        total = -total
    tl.store(Y + p, total)


@triton.jit
def shapes(X, Y, n):
    """Operations that know about axes, in ranks 1 to 3."""
    p = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    i = tl.arange(0, 4)[:, None]
    j = tl.arange(0, 8)[None, :]
    x = tl.load(X + p * 32 + i * 8 + j)
    best, where = tl.max(x, 1, return_indices=True)
    y = tl.cumsum(x, 1) + tl.cumsum(x, 0, reverse=True)
    y += tl.reshape(tl.trans(x), (4, 8)) + tl.sort(x)
    y += tl.where(j == where[:, None], best[:, None], tl.expand_dims(tl.min(x, 0), 0))
    a, b = tl.split(tl.reshape(tl.join(x, y), (8, 4, 2)))
    c = tl.dot(tl.permute(a, (1, 0)), b) + tl.max(x) * tl.num_programs(0)
    z = tl.reshape(tl.broadcast_to(tl.reshape(c, (1, 4, 4)), (2, 4, 4)), (4, 8))
    z += tl.gather(y, (j * 3 + i) % 8, 1)
    tl.store(Y + p * 32 + i * 8 + j, z + tl.flip(y) + tl.fma(x, y, z))


@triton.jit
def counts(X, Y, n):
    """Atomic additions: every program adds to the same places."""
    at = tl.arange(0, 8)
    tl.atomic_add(Y + at, tl.load(X + tl.program_id(0) * 8 + at))


@triton.jit
def shift(X, Y, n):
    """Reads what the next program stores: wrong on a GPU, right in a plain loop over programs."""
    p = tl.program_id(0)
    at = tl.arange(0, 8)
    x = tl.load(X + (p + 1) * 8 + at, mask=(p + 1) * 8 + at < n, other=0.0)
    tl.store(X + p * 8 + at, x)


@triton.jit
def same(X, Y, n):
    """All programs store the same element."""
    tl.store(Y, tl.load(X))


@triton.jit
def outside(X, Y, n):
    """Only the last program leaves the buffer."""
    at = tl.program_id(0) * 8 + tl.arange(0, 8)
    tl.store(Y + at, tl.load(X + at + (tl.program_id(0) == 39)))


@triton.jit
def atomic_outside(X, Y, n):
    """The last addition lands behind the buffer."""
    tl.atomic_add(Y + tl.program_id(0) + n - 39, 1.0)


@triton.jit
def into_input(X, Y, n):
    """Stores where it may only read."""
    tl.store(X + tl.program_id(0), 0.0)


def main(name, how):
    if how == "alone":
        lockstep.FIRST_GROUP = lockstep.MOST_PROGRAMS = 1
    watch = interp.Watch()
    interp.install(watch)
    torch.manual_seed(3)
    x = torch.randn(N * 32 if name == "shapes" else N * 8)
    y = torch.zeros_like(x)
    watch.add(x.data_ptr(), x.nbytes, 4, "X", writable=name in ("ways", "shift"))
    watch.add(y.data_ptr(), y.nbytes, 4, "Y")
    grid = (5, 8) if name == "shapes" else (N,)
    try:
        globals()[name][grid](x, y, x.numel())
    except Exception:
        print("error", watch.last_error)
        return
    print(x.double().sum().item(), y.view(torch.int32).tolist())


def each(how, *names):
    """One fork for each kernel: Python has imported what they need once."""
    for name in names:
        print("==", name, flush=True)
        pid = os.fork()
        if not pid:
            main(name, how)
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert status == 0, name


each(*sys.argv[1:])
