"""What an explicit mapping leaves open: the values a tuner may try, and the mapping with some of them set.

A choice is called `instance.name`; the name is a tunable's or an option's. Where a mapping's file says `!tune`, its default (else
its first value) stands until something better is found. What a policy chose without asking a tuner, memories of tensors and pipeline
depths, is a choice of its own kind: `instance.mems.TENSOR`, `instance.TASK.mems.PARAM` and `instance.pipeline` (`policy_choices`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from septran.mapping.schema import ExplicitMapping, Instance, Tune

Values = Mapping[str, object]
DIRECT = "none"
"""Of a leaf's operand in place of a memory: no copy of it is asked for."""
_DEPTHS = (1, 2, 3, 4)
_MEMS = "mems"


def settled(mapping: ExplicitMapping, *, first: bool = False) -> ExplicitMapping:
    """Return `mapping` with every `!tune` that has a default set to it, and what it leaves open in `choices`.

    first: the others are set to their first value; else they stay, and binding refuses them (M090).
    """
    return replace(
        mapping, instances={name: _settled(one, first) for name, one in mapping.instances.items()}
    )


def _settled(instance: Instance, first: bool) -> Instance:
    choices = dict(instance.choices)
    tables = []
    for table in (instance.tunables, instance.options):
        plain = dict(table)
        for name, value in table.items():
            if isinstance(value, Tune) and (value.default is not None or (first and value.values)):
                plain[name] = value.values[0] if value.default is None else value.default
                choices[name] = tuple(dict.fromkeys((plain[name], *value.values)))
        tables.append(plain)
    if choices == instance.choices:
        return instance
    return replace(instance, tunables=tables[0], options=tables[1], choices=choices)


def choices_of(mapping: ExplicitMapping) -> dict[str, tuple[object, ...]]:
    """Return choice -> its values, only where there are several."""
    return {
        f"{name}.{key}": values
        for name, one in mapping.instances.items()
        for key, values in one.choices.items()
        if len(values) > 1
    }


def values_of(mapping: ExplicitMapping, names: Mapping[str, object]) -> dict[str, object]:
    """Return what `mapping` has for each choice of `names`."""
    found: dict[str, object] = {}
    for name in names:
        one, _, key = name.rpartition(".")
        if one.endswith(f".{_MEMS}"):
            found[name] = _mem(mapping, one.removesuffix(f".{_MEMS}"), key)
            continue
        instance = mapping.instances[one]
        found[name] = instance.tunables.get(key, instance.options.get(key))
    return found


def policy_choices(
    mapping: ExplicitMapping, memories: Sequence[str]
) -> dict[str, tuple[object, ...]]:
    """Return choice -> its values of what the policy that made `mapping` chose itself, what it has first.

    memories: that a tensor may be put into. Whether a choice maps and fits, binding says.
    """
    found: dict[str, tuple[object, ...]] = {}
    for name, one in mapping.instances.items():
        for tensor, mem in one.mems.items():
            found[f"{name}.{_MEMS}.{tensor}"] = (mem, *memories)
        for leaf, binding in one.leaf_task_bindings.items():
            for param, mem in binding.mems.items():
                found[f"{name}.{leaf}.{_MEMS}.{param}"] = (mem, *memories, DIRECT)
        depth = one.options.get("pipeline")
        if isinstance(depth, int) and "pipeline" not in one.choices:
            found[f"{name}.pipeline"] = (depth, *_DEPTHS)
    plain = {name: tuple(dict.fromkeys(values)) for name, values in found.items()}
    return {name: values for name, values in plain.items() if len(values) > 1}


def _mem(mapping: ExplicitMapping, place: str, tensor: str) -> str:
    """Return the memory of a tensor of an instance, or of an operand of a leaf that it calls (`instance.leaf`)."""
    if place in mapping.instances:
        return mapping.instances[place].mems[tensor]
    one, _, leaf = place.rpartition(".")
    return mapping.instances[one].leaf_task_bindings[leaf].mems.get(tensor, DIRECT)


def _moved(instances: Mapping[str, Instance], place: str, tensor: str, mem: str) -> Instance:
    """Return the instance with a tensor, or an operand of a leaf, in another memory."""
    if place in instances:
        inst = instances[place]
        if tensor not in inst.mems:
            raise KeyError(f"{place}.{_MEMS}.{tensor}")
        return replace(inst, mems={**inst.mems, tensor: mem})
    one, _, leaf = place.rpartition(".")
    inst = instances[one]
    binding = inst.leaf_task_bindings[leaf]
    if mem != DIRECT:
        mems = {**binding.mems, tensor: mem}
    else:
        mems = {name: known for name, known in binding.mems.items() if name != tensor}
    bindings = {**inst.leaf_task_bindings, leaf: replace(binding, mems=mems)}
    return replace(inst, leaf_task_bindings=bindings)


def with_values(mapping: ExplicitMapping, values: Values) -> ExplicitMapping:
    """Return `mapping` with choices set.

    Raises:
        KeyError: it has no such choice.
    """
    instances = dict(mapping.instances)
    for name, value in values.items():
        one, _, key = name.rpartition(".")
        if one.endswith(f".{_MEMS}"):
            place = one.removesuffix(f".{_MEMS}")
            owner = place if place in instances else place.rpartition(".")[0]
            instances[owner] = _moved(instances, place, key, str(value))
            continue
        instance = instances[one]
        if key in instance.tunables:
            instances[one] = replace(instance, tunables={**instance.tunables, key: value})
        elif key in instance.options:
            instances[one] = replace(instance, options={**instance.options, key: value})
        else:
            raise KeyError(name)
    return replace(mapping, instances=instances)
