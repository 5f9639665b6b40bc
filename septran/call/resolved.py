"""What `septran.compile` was asked, looked up: logic, entry task, mapping and target as a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from septran import backends
from septran.call.asleep import asked_key
from septran.call.kernel import CompiledKernel
from septran.call.recorded import recorder
from septran.errors import ArgumentError, InputError, MappingError
from septran.mapping.load import load_mapping
from septran.mapping.schema import ExplicitMapping
from septran.plan import catalog
from septran.plan.resolve import for_backend, in_one_order, load_target_mapping
from septran.plan.specialize import entry_task
from septran.tasklang.load import load_logic


def resolved(asked: Mapping[str, Any], lasting: Mapping[str, Any], again: Any) -> CompiledKernel:
    """Return the kernel of `septran.compile(**asked)`; raises as it does. lasting: with whole paths. again: how it travels."""
    key = asked_key(lasting)
    logic_file, mapping_file = asked["logic_file"], asked["mapping_file"]
    target, op, arch, entry = (asked[n] for n in ("target", "op", "arch", "entry"))
    if op is not None and mapping_file is None and target is None:
        target = backends.HOST
    _check_file(logic_file)
    if mapping_file is None and target is None:
        raise InputError.of(
            "C141",
            "neither mapping_file nor target is given",
            help=f"targets are {', '.join(backends.names())}",
        )
    if op is not None:
        logic = catalog.shipped(catalog.op_file(op))
    else:
        logic = load_logic(Path(str(logic_file)))
    given = load_mapping(Path(mapping_file)) if mapping_file is not None else None
    name = target or (given.target if given is not None else None)
    if name is None:
        assert isinstance(given, ExplicitMapping)
        name = infer_target(given)
    backend = backends.get(name)
    chosen = backends.resolve_arch(backend, arch or (given.arch if given is not None else None))
    mapping = for_backend(given, backend) if given else load_target_mapping(backend, chosen, None)
    if asked["deterministic"]:
        mapping = in_one_order(mapping, asked["deterministic"])
    if op is not None and entry is None:
        task = logic.operators[op].entry
    else:
        task = entry_task(logic, mapping if given is not None else None, entry)
    dynamic = asked["dynamic"]
    return CompiledKernel(
        logic,
        task,
        mapping,
        backend,
        chosen,
        verify=asked["verify"],
        dynamic=dynamic if isinstance(dynamic, Mapping) else dict.fromkeys(dynamic),
        again=again,
        backward=asked["backward"],
        recorder=recorder(lasting, key, mapping, backend.device),
    )


def _check_file(logic_file: Any) -> None:
    """Say what to write to somebody who gave an operator's name for a file."""
    if not isinstance(logic_file, str) or Path(logic_file).exists():
        return
    if logic_file in {op["name"] for op in catalog.ops()}:
        raise ArgumentError.of(
            "C140",
            f"{logic_file!r} is an operator's name and no file",
            help=f'septran.compile(op="{logic_file}")',
        )


def infer_target(mapping: ExplicitMapping) -> str:
    """Return the only sensible target for a mapping that names none, from its processors.

    Raises:
        MappingError: M007, the processors leave no unique choice.
    """
    procs = {i.proc for i in mapping.instances.values()}
    mems = {m for i in mapping.instances.values() for m in i.mems.values()}
    found = backends.target_of(procs, mems)
    if found is None:
        raise MappingError.of(
            "M007",
            f"target cannot be inferred from processors {sorted(procs)}; add 'target:'",
            help=f"targets are {', '.join(backends.names())}",
        )
    return found
