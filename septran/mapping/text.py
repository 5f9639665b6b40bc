"""An explicit mapping as the YAML a user would write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from septran import spanyaml
from septran.mapping.schema import Binding, ExplicitMapping, Instance, LeafKernelFile, Tune


def mapping_text(mapping: ExplicitMapping, *, comment: str = "") -> str:
    """Return the text of a mapping file that `load_mapping` reads back equal (places aside)."""
    data: dict[str, Any] = {
        "target": mapping.target,
        "arch": mapping.arch,
        "entrypoint": mapping.entrypoint,
        "task_mappings": {name: _instance(i) for name, i in mapping.instances.items()},
        "leaf_kernels": {name: _kernel(k) for name, k in mapping.leaf_kernels.items()},
        "constraints": [text for text, _ in mapping.constraints],
    }
    return spanyaml.dump(_given(data), comment=comment, flow_depth=3)


def _instance(instance: Instance) -> dict[str, Any]:
    bindings = instance.leaf_task_bindings
    data = {
        "task_name": instance.task_name,
        "proc": instance.proc,
        "mems": dict(instance.mems),
        "tunables": _plain(instance.tunables),
        "tiles": {name: list(tile) for name, tile in instance.tiles.items()},
        **_plain(instance.options),
        "calls": dict(instance.calls),
        "leaf_task_bindings": {leaf: _binding(b) for leaf, b in bindings.items()},
    }
    return _given(data)


def _binding(binding: Binding) -> Any:
    kernel = _value(binding.kernel)
    return {"kernel": kernel, "mems": dict(binding.mems)} if binding.mems else kernel


def _kernel(kernel: LeafKernelFile) -> dict[str, Any]:
    return _given(
        {
            "dsl": kernel.dsl,
            "symbol": kernel.symbol,
            "source": kernel.source,
            "mems": dict(kernel.mems),
            "dtypes": list(kernel.dtypes),
            "requires": list(kernel.requires),
        }
    )


def _plain(values: Mapping[str, object]) -> dict[str, Any]:
    return {name: _value(value) for name, value in values.items()}


def _value(value: object) -> Any:
    if isinstance(value, Tune):
        told = {"type": "choice", "values": list(value.values), "default": value.default}
        return spanyaml.Tagged("!tune", {k: v for k, v in told.items() if v is not None})
    if isinstance(value, Mapping):
        return {name: _value(inner) for name, inner in value.items()}
    if isinstance(value, tuple):
        return [_value(inner) for inner in value]
    return value


def _given(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value not in (None, {}, [], ())}
