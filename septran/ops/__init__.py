"""The shipped operators as functions on CPU tensors: `septran.ops.softmax(x)`.

Each is compiled for the shapes and types of its first call, verified, and kept; see `septran.compile`.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    if name.startswith("_"):
        raise AttributeError(name)
    import septran

    try:
        found = globals()[name] = septran.compile(op=name)
    except septran.ConfigError as e:
        if e.codes != ("C044",):
            raise
        raise AttributeError(
            f"septran.ops has no operator {name!r}; `septran ls ops` lists them"
        ) from None
    return found


def __dir__() -> list[str]:
    from septran.plan import catalog

    return [str(entry["name"]) for entry in catalog.ops()]
