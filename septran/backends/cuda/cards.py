"""A CUDA file that asks which card it runs on is judged with the answers of several (emulator/devices.h)."""

from __future__ import annotations

import re
from dataclasses import replace

from septran.backends.base import Reading
from septran.backends.judged.c_host import blank
from septran.machine import load_machine

NAMES = {
    750: "a T4",
    800: "a slice of an A100",
    860: "an RTX 3090",
    890: "an RTX 4090",
    900: "an H100",
    1000: "a B200",
    1200: "an RTX 5090",
}
"""by the value of `__CUDA_ARCH__`"""
_MACHINES = {
    800: "cuda_c.sm_80",
    860: "cuda_c.sm_120a",
    890: "cuda_c.sm_120a",
    1200: "cuda_c.sm_120a",
}
"""whose shared memory a block may opt in to as much of, where it is not what the H100 has"""
_KIB = {750: 64}
"""the same in KiB, of a card like no target"""
_TRIED = (900, 800, 1200)
_ASKED = re.compile(r"\bcuda(?:DeviceProp|GetDeviceProperties|DeviceGetAttribute|Occupancy)\w*")
_OF_ARCHS = re.compile(r"\d+")


def on_cards(readings: tuple[Reading, ...], text: str) -> tuple[Reading, ...]:
    """Return `readings`, each as cards of its architectures answer, where the text asks one.

    readings: one for all devices, or such as `nvcc_passes.readings` names with the values of `__CUDA_ARCH__`.
    """
    if not _ASKED.search(blank(text)):
        return readings
    if len(readings) == 1:
        return tuple(_on_card(readings[0], card, "") for card in _TRIED)
    return tuple(_on_card(r, int(_OF_ARCHS.findall(r.devices)[0]), r.devices) for r in readings)


def _on_card(reading: Reading, card: int, devices: str) -> Reading:
    flags = [f"-DCUEMU_CARD={card}"]
    if limit := _shared(card):
        flags += ["-USEPTRAN_SHARED_LIMIT", f"-DSEPTRAN_SHARED_LIMIT={limit}"]
    said = f"{devices} and it runs on {NAMES[card]}" if devices else f"it runs on {NAMES[card]}"
    return replace(reading, devices=said, flags=(*reading.flags, *flags))


def _shared(card: int) -> int | None:
    """Return the bytes of shared memory that a block of the card may opt in to; None: as many as on the H100."""
    if (kib := _KIB.get(card)) is not None:
        return kib << 10
    name = _MACHINES.get(card)
    return load_machine(name).memories["SHARED"].capacity if name else None
