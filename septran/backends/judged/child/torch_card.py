"""A GPU that is not there, as torch.cuda would describe it; beside a judged kernel as septran_torch_card.py."""

from __future__ import annotations

import contextlib
import types
from typing import Any, NamedTuple

import torch


class Card(NamedTuple):
    """A device that answers. shared: bytes of a block, as it may ask for, and of a multiprocessor; clocks in kHz; bus in bits."""

    name: str
    capability: tuple[int, int]
    processors: int
    memory: int
    shared: tuple[int, int]
    threads: int
    clocks: tuple[int, int]
    bus: int


CARDS = {
    "80": Card("NVIDIA A100-SXM4-80GB MIG 1g.10gb", (8, 0), 14, 10 << 30, (166912, 167936), 2048, (1410000, 1593000), 640),
    "90": Card("NVIDIA H100 80GB HBM3", (9, 0), 132, 80 << 30, (232448, 233472), 2048, (1980000, 2619000), 5120),
    "100": Card("NVIDIA B200", (10, 0), 148, 180 << 30, (232448, 233472), 2048, (1965000, 3996000), 8192),
    "120": Card("NVIDIA GeForce RTX 5090", (12, 0), 170, 32 << 30, (101376, 102400), 1536, (2407000, 14001000), 512),
}  # fmt: skip
"""By compute capability (CUDA C++ programming guide, technical specifications per compute capability; data sheets).

Of the A100 it is the smallest slice (MIG user guide): kernels that start a block or a program per multiprocessor then go round more than once.
"""


def card_of(arch: str) -> Card:
    """Return the card that answers for an architecture (`sm_90a`)."""
    return CARDS[arch.removeprefix("sm_").rstrip("af")]


def pretend_cuda(card: Card) -> None:
    """Answer what hosts ask `torch.cuda`."""
    plain = types.SimpleNamespace(
        multi_processor_count=card.processors, major=card.capability[0], minor=card.capability[1], name=card.name,
        total_memory=card.memory, warp_size=32, shared_memory_per_multiprocessor=card.shared[1],
        shared_memory_per_block=49152, shared_memory_per_block_optin=card.shared[0], regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=card.threads,
    )  # fmt: skip
    stream = types.SimpleNamespace(
        cuda_stream=0, synchronize=lambda: None, wait_stream=lambda other: None
    )
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "synchronize": lambda *_: None,
        "get_device_properties": lambda *_: plain,
        "get_device_capability": lambda *_: card.capability,
        "get_device_name": lambda *_: card.name,
        "current_stream": lambda *_: stream,
        "set_device": lambda *_: None,
        "device": lambda *_: contextlib.nullcontext(),
        "device_of": lambda *_: contextlib.nullcontext(),
        "stream": lambda *_: contextlib.nullcontext(),
        "empty_cache": lambda: None,
        "is_bf16_supported": lambda *_: card.capability >= (8, 0),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
