"""Turn a target's policy and a logic into an explicit mapping in the seeds' form.

The logic is bound once with trial sizes. That shows, for each tunable, which dimensions of which
primitives it cuts (its roles) and how large they are; the policy's rules then give the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeGuard

from septran.bind.check_policy import check_policy
from septran.bind.lower import LeafSite, Lowering
from septran.bind.roles import FALLBACK, PRIORITY, dim_roles, operand_role
from septran.bind.scope import Value
from septran.errors import MappingError
from septran.ir.dtypes import FLOATS, nbytes, whole_sums
from septran.ir.nodes import For, walk
from septran.machine import Machine
from septran.mapping.arith import evaluate
from septran.mapping.schema import ROLES, Binding, ExplicitMapping, Instance, Policy, Rule, Tune
from septran.tasklang.check import Traces
from septran.tasklang.tree import AllocLocal, Launch, Loop, Task, Traced
from septran.tasklang.values import Tunable

TRIAL = 16


def apply_policy(
    policy: Policy,
    *,
    traces: Traces,
    tasks: Mapping[str, Task],
    entry: Traced,
    env: dict[str, Value],
    machine: Machine,
    cores: int,
    accumulate: str = "float32",
) -> ExplicitMapping:
    """Return the explicit mapping that `policy` gives the logic.

    Raises:
        MappingError: M005, M010, M050 words that the machine does not know, M070 no rule matches a leaf, M062 a size expression,
            M090 a !tune left.
    """
    check_policy(policy, machine)
    skeleton = _skeleton(policy, entry, traces)
    trial = Lowering(
        traces=traces,
        tasks=tasks,
        instances=skeleton,
        machine=machine,
        missing=_trial_value,
        accumulate=accumulate,
    )
    body = trial.instance(skeleton["host"], (), dict(env), 0)
    chosen = {id(s): _choose(policy, s, trial) for s in trial.sites}
    sizes, choices = _tunables(policy, trial, chosen, cores)
    loops = any(isinstance(s, For) and not s.parallel for s in walk(body))
    instances = {}
    for name, inst in skeleton.items():
        sites = [s for s in trial.sites if s.instance == name]
        filled = _fill(policy, inst, sites, chosen, streams=loops or _panels(sites))
        place = next((c.span for c in (chosen[id(s)] for s in sites) if c.span), policy.grid_span)
        instances[name] = replace(filled, key_spans={} if place is None else {(): place})
    host = instances["host"]
    instances["host"] = replace(host, tunables=sizes, choices=choices)
    return ExplicitMapping(
        file=policy.file,
        target=policy.target,
        arch=policy.arch,
        entrypoint="host",
        instances=instances,
        constraints=policy.constraints,
    )


def _trial_value(name: str, asked: Tunable | None) -> int:
    return asked.default if asked is not None and asked.default is not None else TRIAL


def _skeleton(policy: Policy, entry: Traced, traces: Traces) -> dict[str, Instance]:
    """Return the instances without numbers: HOST at the top, everything else at the grid level."""
    own_leaves = any(isinstance(n, Launch) and n.task.leaf for n in entry.walk())
    inner = _inner_calls(entry)
    tiled = any(
        isinstance(n, Loop) and n.kind == "parallel" and _has_inner(n) for n in entry.walk()
    )
    found: dict[str, Instance] = {}

    def add(traced: Traced) -> None:
        name = traced.task.name
        if name in found:
            return
        calls = _inner_calls(traced)
        found[name] = Instance(
            name=name, task_name=name, proc=policy.grid, calls={c: c for c in calls}
        )
        for node in traced.walk():
            if isinstance(node, Launch) and not node.task.leaf:
                add(traces.callee(node))

    program = not any(isinstance(n, Loop) and n.kind == "parallel" for n in entry.walk())
    if inner and (tiled or program) and not own_leaves:
        for node in entry.walk():
            if isinstance(node, Launch) and not node.task.leaf:
                add(traces.callee(node))
        # what a program makes itself lives between its kernels
        workspaces = {n.tensor.name: "GLOBAL" for n in entry.walk() if isinstance(n, AllocLocal)}
        host = Instance(
            name="host",
            task_name=entry.task.name,
            proc="HOST",
            calls={c: c for c in inner},
            mems=workspaces if program else {},
        )
    else:
        add(entry)
        host = Instance(
            name="host",
            task_name=f"{entry.task.name}_host",
            proc="HOST",
            calls={entry.task.name: entry.task.name},
        )
    return {"host": host, **found}


def _inner_calls(traced: Traced) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            n.task.name for n in traced.walk() if isinstance(n, Launch) and not n.task.leaf
        )
    )


def _has_inner(loop: Loop) -> bool:
    for node in loop.body:
        if isinstance(node, Launch) and not node.task.leaf:
            return True
        if isinstance(node, Loop) and _has_inner(node):
            return True
    return False


def _panels(sites: list[LeafSite]) -> bool:
    return any(any(b.region.grid) for s in sites for b in s.args.values())


def _role_extents(site: LeafSite, trial: Lowering) -> dict[str, int]:
    """Return role -> full extent of the dimension (before tiling), the largest of each role; axes that are reduced at once count together."""
    found: dict[str, int] = {}
    for prim in sorted(site.prims, key=lambda p: PRIORITY.get(p.name, 1)):
        together = 1
        for param, axis, role in dim_roles(prim, site):
            bound = site.args[param]
            whole = [trial.probe.extents.get(t, 1) for t in bound.taints[axis]]
            extent = max([bound.region.tile[axis], *whole])
            if role == "reduced" and param == prim.ins[0]:
                together *= extent
                extent = together
            for name in (role, FALLBACK.get(role, role)):
                found[name] = max(found.get(name, 1), extent)
    return found


def _site_dtype(site: LeafSite) -> str:
    """Return the dtype rules match on: that of the first tensor read from memory, else the first.

    It is a float, or what a product of integers multiplies.
    """
    kinds = {p: site.args[p].region.buffer.dtype for p in site.args}
    for prim in site.prims:
        if prim.name in ("gemm", "gemm_acc") and whole_sums(
            kinds[prim.out], [kinds[p] for p in prim.ins]
        ):
            return kinds[prim.ins[0]]
    outside = [p for p in site.args if p not in site.local_args]
    reads = [p for p in outside if "r" in site.privileges.get(p, "")]
    for p in (*reads, *outside, *site.args):
        dtype = site.args[p].region.buffer.dtype
        if dtype in FLOATS:
            return dtype
    return "float32"


def _choose(policy: Policy, site: LeafSite, trial: Lowering) -> Rule:
    names = {p.name for p in site.prims}
    dtype = _site_dtype(site)
    extents: dict[str, int] | None = None
    for rule in policy.rules:
        if "*" not in rule.primitives and not names & set(rule.primitives):
            continue
        if rule.dtypes and dtype not in rule.dtypes:
            continue
        if rule.when:
            extents = extents if extents is not None else _role_extents(site, trial)
            known = dict.fromkeys(ROLES, 1) | extents
            known |= {"bytes": nbytes(dtype), "skips": int(site.skips)}
            known["chained"] = int(_chained(site))
            known["winograd"] = int(policy.options.get("math") == "winograd")
            if not all(evaluate(w, known, rule.span) for w in rule.when):
                continue
        return rule
    raise MappingError.of(
        "M070",
        f"{policy.file}: no rule matches leaf {site.task!r} ({', '.join(sorted(names))}, {dtype})",
        help='add a rule with match: {primitive: "*"} as the last one',
    )


def _chained(site: LeafSite) -> bool:
    """True for a product whose left operand the kernel makes itself, as attention its weights."""
    return any(p.name in ("gemm", "gemm_acc") and p.ins[0] in site.local_args for p in site.prims)


@dataclass(frozen=True, slots=True)
class _Claim:
    """asked: what the rule says, of which `value` is the size."""

    priority: int
    value: object
    asked: object


def _tunables(
    policy: Policy, trial: Lowering, chosen: Mapping[int, Rule], cores: int
) -> tuple[dict[str, object], dict[str, tuple[object, ...]]]:
    """Return tunable -> value: the highest-priority role decides, the smallest value on a tie.

    And tunable -> the values that the deciding rule lets a tuner try, those left out that cut nothing off.
    """
    claims: dict[str, list[_Claim]] = {}
    shared = _block_tunables(trial)
    for site in trial.sites:
        rule = chosen[id(site)]
        extents = _role_extents(site, trial)
        for prim in site.prims:
            for param, axis, role in dim_roles(prim, site):
                if role not in rule.tiles:
                    role = FALLBACK.get(role, role)
                if role not in rule.tiles:
                    continue
                for tunable in site.args[param].taints[axis]:
                    named = "block" if tunable in shared and "block" in rule.tiles else role
                    asked = rule.tiles[named]
                    value = asked.default if _has_default(asked) else asked
                    if isinstance(value, str):
                        known = {f"ext_{r}": n for r, n in extents.items()}
                        known |= {
                            "extent": trial.probe.extents.get(tunable, 1),
                            "cores": cores,
                            "bytes": nbytes(_site_dtype(site)),
                            "skips": int(site.skips),
                        }
                        for r in ROLES:
                            known.setdefault(f"ext_{r}", 1)
                        value = max(1, evaluate(value, known, rule.span))
                    claims.setdefault(tunable, []).append(
                        _Claim(PRIORITY.get(prim.name, 1), value, asked)
                    )
    found: dict[str, object] = {}
    choices: dict[str, tuple[object, ...]] = {}
    for name in sorted(claims):
        top = max(c.priority for c in claims[name])
        deciding = [c for c in claims[name] if c.priority == top]
        values = [c.value for c in deciding]
        tunes = [v for v in values if isinstance(v, Tune)]
        if tunes:
            found[name] = tunes[0]
        else:
            size = min(v for v in values if isinstance(v, int))
            found[name] = size
            asked = next((c.asked for c in deciding if c.value == size), None)
            if isinstance(asked, Tune):
                most = max(size, trial.probe.extents.get(name, 1))
                kept = [v for v in asked.values if isinstance(v, int) and v < most]
                whole = min(
                    (v for v in asked.values if isinstance(v, int) and v >= most), default=size
                )
                choices[name] = tuple(sorted({size, whole, *kept}))
    return found, choices


def _has_default(value: object) -> TypeGuard[Tune]:
    return isinstance(value, Tune) and value.default is not None


def _block_tunables(trial: Lowering) -> set[str]:
    """Return the tunables that cut rows, columns and depth of a product alike."""
    found = set()
    for site in trial.sites:
        roles: dict[str, set[str]] = {}
        for prim in site.prims:
            for param, axis, role in dim_roles(prim, site):
                for tunable in site.args[param].taints[axis]:
                    roles.setdefault(tunable, set()).add(role)
        found |= {tunable for tunable, cut in roles.items() if {"m", "n", "k"} <= cut}
    return found


def _fill(
    policy: Policy,
    inst: Instance,
    sites: list[LeafSite],
    chosen: Mapping[int, Rule],
    *,
    streams: bool,
) -> Instance:
    """Return the instance with memories, leaf bindings and options."""
    mems: dict[str, str] = dict(inst.mems)
    strengths: dict[str, int] = {}
    bindings: dict[str, Binding] = {}
    for site in sites:
        rule = chosen[id(site)]
        wanted = {}
        for param, bound in site.args.items():
            if bound.region.guard:
                mems[bound.root] = policy.halo or rule.mems.get("in", "")
                continue
            if param in site.local_args or param not in site.privileges:
                continue
            role = operand_role(param, site.prims)
            mem = rule.mems.get(role) or rule.mems.get("out" if role == "out" else "in", "")
            if mem:
                wanted[param] = mem
        old = bindings.get(site.task)
        if old is not None:
            wanted = {p: m for p, m in wanted.items() if old.mems.get(p) == m}
        bindings[site.task] = Binding(kernel=rule.kernel, mems=wanted)  # type: ignore[arg-type]
        _locals(policy, site, mems, strengths)
    options: dict[str, object] = dict(policy.options)
    ranked = sorted(sites, key=lambda s: max(PRIORITY.get(p.name, 1) for p in s.prims))
    for site in ranked:
        options.update(chosen[id(site)].options)
    if not sites or not streams:
        options.pop("pipeline", None)
        options.pop("warpspecialize", None)
    if inst.proc == "HOST":
        options = {}
    choices = {name: v.values for name, v in options.items() if _has_default(v)}
    options = {name: v.default if _has_default(v) else v for name, v in options.items()}
    return replace(inst, mems=mems, leaf_task_bindings=bindings, options=options, choices=choices)


def _locals(
    policy: Policy, site: LeafSite, mems: dict[str, str], strengths: dict[str, int]
) -> None:
    """Give the site's local operands a memory by their strongest use, kept per tensor in `strengths`."""
    rank = {"gemm.out": 2, "gemm.in": 1, "default": 0}
    for param in site.local_args:
        root = site.args[param].root
        use = "default"
        for prim in site.prims:
            if prim.name in ("gemm", "gemm_acc"):
                if param == prim.out:
                    use = "gemm.out"
                elif param in prim.ins and use == "default":
                    use = "gemm.in"
        mem = policy.locals.get(use) or policy.locals.get("default", "REGISTER")
        if strengths.get(root, 0) <= rank[use]:
            mems[root] = mem
            strengths[root] = rank[use]
