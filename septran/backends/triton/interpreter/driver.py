"""What `triton.runtime.driver.active` says about a device that is not there; beside a judged kernel as septran_triton_driver.py."""

from __future__ import annotations

import types
from typing import Any

import torch
from septran_torch_card import Card
from septran_torch_host import DEVICE


class Driver:
    """A GPU that answers. card: which one."""

    def __init__(self, card: Card) -> None:
        self.card = card
        properties = {
            "multiprocessor_count": card.processors,
            "max_num_regs": 65536,
            "max_shared_mem": card.shared[0],
            "warpSize": 32,
            "sm_clock_rate": card.clocks[0],
            "mem_clock_rate": card.clocks[1],
            "mem_bus_width": card.bus,
        }
        self.utils = types.SimpleNamespace(get_device_properties=lambda index=0: dict(properties))

    def get_active_torch_device(self) -> torch.device:
        """Return the device that all tensors say they are on."""
        return DEVICE

    def get_current_target(self) -> Any:
        """Return the target that launches are for."""
        from triton.backends.compiler import GPUTarget

        major, minor = self.card.capability
        return GPUTarget("cuda", 10 * major + minor, 32)

    def get_current_device(self) -> int:
        """Return the index of the only device."""
        return 0

    def get_current_stream(self, device: Any = None) -> int:
        """Return the default stream."""
        return 0

    def get_device_interface(self) -> Any:
        """Return the module that stands for the device in torch."""
        return torch.cuda

    def get_empty_cache_for_benchmark(self) -> Any:
        """Return what benchmarks clear the cache with; nothing is measured here."""
        return torch.empty(0)

    def clear_cache(self, cache: Any) -> None:
        """Do nothing: nothing is measured here."""
