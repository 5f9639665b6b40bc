"""What somebody's host function is called with, so that its kernel does what a reference asks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from septran.aten.graph import Plain, Several
from septran.backends.base import Host, HostCall, HostParam, Passed
from septran.errors import ConfigError, Span, closest
from septran.ir.dtypes import FLOATS
from septran.plan.reference_lines import span_of
from septran.plan.wanted import Wanted
from septran.run.host_in_place import check_in_place, with_results
from septran.run.host_numbers import guesses

Numbers = Mapping[str, float | int | str]
"""Values of number parameters by name, as the user gave them; words (`dtype=float16`) are for hosts in Python."""


def host_call(
    host: Host, wanted: Wanted, numbers: Numbers, *, file: Path, in_place: tuple[str, ...] = ()
) -> HostCall:
    """Return how the host function is called with the reference's inputs, weights and outputs.

    Tensors go to tensor parameters in order, plain values of `get_inputs` and `numbers` to the others. A function
    that takes one tensor more per result writes its results there, and returns nothing else; else it returns them, or makes them of the inputs
    that `in_place` names; one on pointers also of those that are not const, where it takes no tensor besides its inputs.

    Raises:
        ConfigError: C172, they do not fit.
    """
    outputs = [p.name for p in wanted.problem.outputs]
    _check_names(host, numbers, file)
    check_in_place(host, in_place, file)
    if any(p.kind != "any" for p in host.params):
        return _typed_call(host, wanted, numbers, in_place, file)
    given = [_passed(g, wanted.file) for g in wanted.given]
    weights = [] if host.module else [Passed(param=w) for w in wanted.weights]
    results = [Passed(param=o) for o in outputs]
    named = {p.name: Passed(value=numbers[p.name]) for p in host.params if p.name in numbers}
    ways = [([*given, *weights], True), ([*given, *weights, *results], False)]
    for args, returns in ways[:1] if in_place else ways:
        by_name = [p for p in host.params if p.keyword]
        if any(not p.default and p.name not in named for p in by_name):
            break
        placed = {n: v for n, v in named.items() if n not in {p.name for p in by_name}}
        params = _counted(host.params, len(args) + len(placed))
        least, most = sum(not p.default for p in params), len(params)
        free = [p for p in params if p.name not in placed]
        if least - len(placed) <= len(args) <= len(free) and len(args) <= most:
            order = iter(args)
            found = [(p, placed.get(p.name) or next(order, None)) for p in params]
            gap = next((k for k, (_, one) in enumerate(found) if one is None), len(found))
            filled = [
                replace(one, keyword=p.name if k > gap else "")
                for k, (p, one) in enumerate(found)
                if one is not None
            ]
            filled += [replace(named[p.name], keyword=p.name) for p in by_name if p.name in named]
            into = {p.name for p, one in found if one is not None and one.param in outputs}
            if into and host.gives is not None and not into & {*host.gives}:
                break  # it returns something else: what is left over is an input that the reference lacks
            if in_place:
                changed = [p.name in in_place for p, one in found if one is not None]
                changed += [False] * (len(filled) - len(changed))
                filled, returns = with_results(host, filled, changed, wanted, file), False
            return HostCall(host=host, args=tuple(filled), returns=returns)
    raise _misfit(host, wanted, file)


def _check_names(host: Host, numbers: Numbers, file: Path) -> None:
    """Raise ConfigError C172 when a number is for no parameter; a function that takes anything by name is not asked."""
    params = (*host.params, *(host.maker.params if host.maker else ()))
    names = {p.name for p in params}
    wrong = next((name for name in numbers if name not in names), None)
    if wrong is not None and names and not any(p.many or not p.name for p in params):
        raise ConfigError.of(
            "C172",
            f"{file}: {host.name} has no parameter {wrong!r}{closest(wrong, sorted(names))}",
            Span(str(file), host.line),
            help=f"--number gives values for: {', '.join(sorted(names))}",
        )


def _counted(params: tuple[HostParam, ...], count: int) -> list[HostParam]:
    """Return the parameters, with as many in the place of `*args` as make `count` of them."""
    own = [p for p in params if not p.many and not p.keyword]
    more = count - len(own) if any(p.many for p in params) else 0
    return [*own, *(HostParam(name=f"*{k}") for k in range(more))]


def _typed_call(
    host: Host, wanted: Wanted, given: Numbers, in_place: tuple[str, ...], file: Path
) -> HostCall:
    """Fill typed parameters: read-only pointers with inputs and weights, others with results, numbers by name."""
    reads = [*(g for g in wanted.given if isinstance(g, str)), *wanted.weights]
    writes = [p.name for p in wanted.problem.outputs]
    said = [_plain(g, wanted.file).value for g in wanted.given if not isinstance(g, str)]
    tensors = [p for p in host.params if p.kind == "tensor"]
    returns = not in_place and len(tensors) == len(reads) and _is_result(host.result, wanted)
    if returns:
        tensors, writes = [replace(p, writes=False) for p in tensors], []
    alone = len(tensors) == len(reads)
    if not (in_place or returns) and alone and sum(p.writes for p in tensors) == len(writes):
        in_place = tuple(p.name for p in tensors if p.writes)
    if in_place:
        tensors = [replace(p, writes=False) for p in tensors]
        writes = []
    if not in_place and sum(p.writes for p in tensors) != len(writes):
        # without const nobody says which pointers are results: they come last
        tensors = [
            replace(p, writes=k >= len(tensors) - len(writes)) for k, p in enumerate(tensors)
        ]
    if len(tensors) != len(reads) + len(writes):
        raise _misfit(host, wanted, file)
    kinds = {p.name: p for p in wanted.problem.params}
    writing = {p.name for p in tensors if p.writes}
    numbers = [p for p in host.params if p.kind == "number"]
    if worded := sorted(p.name for p in numbers if isinstance(given.get(p.name), str)):
        raise ConfigError.of(
            "C172",
            f"{file}: {host.name} takes a number for {worded[0]}, --number gives {given[worded[0]]!r}",
            Span(str(file), host.line),
        )
    known = {p.name: given.get(p.name, p.value) for p in numbers if p.name in given or p.default}
    open_ = [p for p in numbers if p.name not in known]
    free = [p for p in numbers if p.name not in given and (p.dtype or not p.default)]
    # those that are no whole numbers are no sizes, whatever the others are
    for some in (
        open_,
        [p for p in open_ if p.dtype in FLOATS],
        free,
        [p for p in free if p.dtype in FLOATS],
    ):
        if said and len(some) == len(said):
            known.update(zip((p.name for p in some), said, strict=True))  # type: ignore[arg-type]
            open_ = [p for p in open_ if p.name not in known]
            break
    shapes = [
        {p.name: kinds[name].shape for p, name in zip(some, given_to, strict=True)}
        for some, given_to in (
            ([p for p in tensors if p.name not in writing], reads),
            ([p for p in tensors if p.name in writing], writes),
        )
    ]
    taken = guesses([p.name for p in open_], *shapes) if open_ else ()
    if taken:
        known.update(taken[0])
        # one number, and one that it can be: a count of elements, of which there is nothing to tell
        taken, open_ = (taken if len(taken) > 1 or len(open_) > 1 else ()), []
    if open_:
        raise ConfigError.of(
            "C172",
            f"{file}: {host.name} wants {', '.join(p.name for p in open_)}, whose value the reference does not say",
            Span(str(file), host.line),
            help=" ".join(f"--number {p.name}=..." for p in open_),
        )
    args = []
    ins, outs = iter(reads), iter(writes)
    for p in host.params:
        if p.kind == "number":
            args.append(Passed(value=known[p.name]))
            continue
        name = next(outs) if p.name in writing else next(ins)
        if p.dtype and p.dtype != kinds[name].dtype:
            raise ConfigError.of(
                "C172",
                f"{file}: {host.name} takes {p.name} as {p.dtype}, the reference has {name} as {kinds[name].dtype}",
                Span(str(file), host.line),
            )
        args.append(Passed(param=name))
    if in_place:
        changed = [p.name in in_place for p in host.params]
        args = with_results(host, args, changed, wanted, file)
    return HostCall(host=host, args=tuple(args), returns=returns, taken=taken)


def _is_result(result: HostParam | None, wanted: Wanted) -> bool:
    """Whether what a function of typed parameters returns is the reference's only result."""
    if result is None or len(wanted.problem.outputs) != 1:
        return False
    (out,) = wanted.problem.outputs
    if result.kind == "tensor":
        return result.dtype == out.dtype
    return math.prod(out.shape) == 1 and (result.dtype in FLOATS) == (out.dtype in FLOATS)


def _passed(given: str | Plain | Several, reference: Path) -> Passed:
    """Return one of the reference's inputs as an argument; raises as `_plain`."""
    match given:
        case str():
            return Passed(param=given)
        case Several(items, kind):
            inside = tuple(_passed(one, reference) for one in items)
            return Passed(many="list" if kind == "list" else "tuple", items=inside)
    return _plain(given, reference)


def _plain(given: object, reference: Path) -> Passed:
    """Return a value of the reference's get_inputs; raises ConfigError C172, of that file, for what no function is given."""
    what = given.kind if isinstance(given, Several) else ""
    if isinstance(given, Plain):
        what = given.opaque
    if what or not isinstance(given, Plain):
        raise ConfigError.of(
            "C172",
            f"{reference}: get_inputs gives a {what}; such a host function is given tensors and numbers",
            span_of(reference, "inputs"),
            help="let get_inputs return each tensor by itself, and a function of the file make the list",
        )
    return Passed(value=given.value)


def _misfit(host: Host, wanted: Wanted, file: Path) -> ConfigError:
    def told(p: HostParam) -> str:
        return f"{p.name}=" if p.default else p.name

    def said(g: str | Plain | Several) -> str:
        if isinstance(g, Several):
            return f"[{', '.join(map(said, g.items))}]"
        return g if isinstance(g, str) else repr(g.value)

    has = [said(g) for g in wanted.given]
    weights = f" and weights {', '.join(wanted.weights)}" if wanted.weights else ""
    results = ", ".join(p.name for p in wanted.problem.outputs)
    return ConfigError.of(
        "C172",
        f"{file}: {host.name}({', '.join(map(told, host.params))}) does not fit the reference, which has "
        f"inputs {', '.join(has) or 'none'}{weights}, and results {results}",
        Span(str(file), host.line),
        help="the host function takes the inputs of get_inputs in order, then the weights; results are returned, or "
        "come as further parameters; --number NAME=VALUE gives a number",
    )
