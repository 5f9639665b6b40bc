"""What an explicit mapping leaves open: the values a tuner may try, and the mapping with some of them set.

A choice is called `instance.name`; the name is a tunable's or an option's. Where a mapping's file says `!tune`, its default (else
its first value) stands until something better is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from septran.mapping.schema import ExplicitMapping, Instance, Tune

Values = Mapping[str, object]


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
    found = {}
    for name in names:
        one, _, key = name.rpartition(".")
        instance = mapping.instances[one]
        found[name] = instance.tunables.get(key, instance.options.get(key))
    return found


def with_values(mapping: ExplicitMapping, values: Values) -> ExplicitMapping:
    """Return `mapping` with choices set.

    Raises:
        KeyError: it has no such choice.
    """
    instances = dict(mapping.instances)
    for name, value in values.items():
        one, _, key = name.rpartition(".")
        instance = instances[one]
        if key in instance.tunables:
            instances[one] = replace(instance, tunables={**instance.tunables, key: value})
        elif key in instance.options:
            instances[one] = replace(instance, options={**instance.options, key: value})
        else:
            raise KeyError(name)
    return replace(mapping, instances=instances)
