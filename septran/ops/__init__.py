"""The shipped operators as functions on CPU tensors: `septran.ops.softmax(x)`.

Each is compiled for the shapes and types of its first call, verified, and kept; see `septran.compile`.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    if name.startswith("_"):
        raise AttributeError(name)
    import septran
    from septran import backends

    if name not in __dir__():
        raise AttributeError(f"septran.ops has no operator {name!r}; `septran ls ops` lists them")
    found = globals()[name] = septran.compile(op=name, target=backends.HOST)
    return found


def __dir__() -> list[str]:
    from septran.plan import catalog

    return [str(entry["name"]) for entry in catalog.ops()]
