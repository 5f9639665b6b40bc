"""A module that maps memory, for tests of what a preloaded Python may hold."""

import mmap

KEPT: list[mmap.mmap] = []


def shared() -> None:
    KEPT.append(mmap.mmap(-1, 4096))


def own() -> None:
    KEPT.append(mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
