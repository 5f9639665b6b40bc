"""An explicit mapping as YAML in the seeds' form, ready to be edited and passed back."""

from __future__ import annotations

from typing import Any

from septran import spanyaml
from septran.mapping.schema import Binding, ExplicitMapping, Instance, Tune


def mapping_yaml(mapping: ExplicitMapping, *, comment: str = "") -> str:
    """Return YAML text that `load_mapping` reads back to an equal mapping (spans apart)."""
    data: dict[str, Any] = {}
    if mapping.target:
        data["target"] = mapping.target
    if mapping.arch:
        data["arch"] = mapping.arch
    data["entrypoint"] = mapping.entrypoint
    data["task_mappings"] = {n: _instance(i) for n, i in mapping.instances.items()}
    if mapping.constraints:
        data["constraints"] = [text for text, _ in mapping.constraints]
    return spanyaml.dump(data, comment=comment, flow_depth=3)


def _instance(inst: Instance) -> dict[str, Any]:
    found: dict[str, Any] = {"task_name": inst.task_name, "proc": inst.proc}
    if inst.mems:
        found["mems"] = dict(inst.mems)
    if inst.tunables:
        found["tunables"] = {k: _value(v) for k, v in inst.tunables.items()}
    if inst.tiles:
        found["tiles"] = {k: list(v) for k, v in inst.tiles.items()}
    if inst.calls:
        found["calls"] = dict(inst.calls)
    found |= {k: _value(v) for k, v in inst.options.items()}
    if inst.leaf_task_bindings:
        found["leaf_task_bindings"] = {k: _binding(b) for k, b in inst.leaf_task_bindings.items()}
    return found


def _binding(binding: Binding) -> Any:
    if not binding.mems:
        return binding.kernel
    return {"kernel": binding.kernel, "mems": dict(binding.mems)}


def _value(value: object) -> object:
    if isinstance(value, Tune):
        return {"type": "choice", "values": list(value.values)}
    return value
