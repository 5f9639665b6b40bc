"""Which leaves a model is asked for, in which order, and what that costs at most.

A leaf is worth asking for when it takes a part of the kernel's time and a body could be better than the library's: fills and
copies move what must be moved, and a leaf that is one call of the target's own routine has no body to improve. They stay
with the library unless the user names them or the mapping says `agent`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from septran.agent.chat import messages_tokens
from septran.agent.config import AgentConfig
from septran.agent.frame import make_frame, strip_comments
from septran.agent.ledger import Ledger
from septran.agent.prompt import render_prompt
from septran.agent.writer import Budget
from septran.backends.base import Backend
from septran.errors import ConfigError, closest
from septran.ir.nodes import Program
from septran.kernel import Leaf, leaf_specs
from septran.machine import load_machine
from septran.run.leaf_work import LeafWork, leaf_work

SCHEMA = "septran.ask/1"
_MOVES = frozenset({"fill", "copy"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One distinct leaf of a kernel. kept: why the library's stays without asking, "" = a model is asked.

    whole: `frame: loops` is asked for, and this leaf is none whose loops are generated.
    """

    work: LeafWork
    kept: str = ""
    whole: bool = False

    @property
    def asked(self) -> bool:
        """Whether a model is asked."""
        return not self.kept


def candidates(
    program: Program,
    floor: Mapping[str, Leaf],
    backend: Backend,
    config: AgentConfig,
    wanted: tuple[str, ...] = (),
) -> tuple[Candidate, ...]:
    """Return the kernel's leaves, those with the largest share of its time first.

    wanted: tasks the user named: these and no others are asked for. Else the config's `ask` decides.

    Raises:
        ConfigError: C137 a task that the kernel does not have.
    """
    specs = leaf_specs(program)
    known = sorted({call.task for call, _ in specs})
    for name in wanted:
        if name not in known:
            raise ConfigError.of(
                "C137",
                f"{program.name} has no leaf {name!r}{closest(name, known)}",
                help=f"its leaves are {', '.join(known)}",
            )
    agents = {spec.key for call, spec in specs if call.impl == "agent"}
    asks_loops = config.get("frame") == "loops"
    found = []
    for work in leaf_work(program, load_machine(program.machine)):
        leaf = floor.get(work.spec.key)
        if leaf is None:
            kept = ""  # an opaque leaf has to be written, named or not
        elif leaf.writer != "library":
            kept = "the mapping binds a file"
        elif wanted:
            kept = "" if work.spec.task in wanted else "not named by --leaf"
        elif work.spec.key in agents:
            kept = ""
        else:
            kept = _kept(work, leaf, backend, config)
        whole = not kept and asks_loops and make_frame(work.spec, backend, "loops").kind != "loops"
        found.append(Candidate(work=work, kept=kept, whole=whole))
    # nothing can be built, and no other leaf judged in the kernel, before these are there
    return tuple(sorted(found, key=lambda c: not c.work.spec.opaque))


def _kept(work: LeafWork, leaf: Leaf, backend: Backend, config: AgentConfig) -> str:
    rules = config.get("ask")
    names = {prim.name for prim in work.spec.prims}
    if names <= _MOVES and not rules["moves"]:
        return "only fills and copies"
    if not rules["single_calls"] and is_single_call(leaf, backend):
        return "the library's is one call of the target's routine"
    if work.share < rules["min_share"]:
        return f"{100 * work.share:.2g} % of the time"
    return ""


def is_single_call(leaf: Leaf, backend: Backend) -> bool:
    """Return whether a library leaf is nothing but one call without code of its own (a lambda, a loop)."""
    signature = backend.signature(leaf.spec).strip("\n")
    text = leaf.source.strip("\n").removeprefix(signature).strip()
    if leaf.listed:
        text = strip_comments(leaf.source, braces=True)
        return len([line for line in text.splitlines() if line.strip()]) == 1
    if text.startswith("{"):
        text = strip_comments(text[1:].rstrip().removesuffix("}"), braces=True)
        parts = [p.strip() for p in text.split(";")]
        # of operations that are put in place, declarations only name the operands
        named = ("using ", "(void)", "const ") if leaf.inline else ("using ", "(void)")
        parts = [p for p in parts if p and not p.startswith(named)]
        return (
            len(parts) == 1 and "{" not in text and re.match(r"[\w:]+\s*[<(]", parts[0]) is not None
        )
    return _python_single(leaf.source)


def _python_single(source: str) -> bool:
    functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    if len(functions) != 1:
        return False
    kept = []
    for node in functions[0].body:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Return(value=ast.Name() | ast.Tuple()):
                continue
            case ast.Expr(value=value) | ast.Return(value=value) | ast.Assign(value=value):
                if "alloc" not in ast.unparse(node).partition("(")[0]:
                    kept.append(value)
            case _:
                return False
    if len(kept) != 1 or kept[0] is None:
        return False
    return sum(isinstance(n, ast.Call) for n in ast.walk(kept[0])) <= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AskPlan:
    """What a run would ask. prompts: estimated tokens of each first prompt, in the order of the calls.

    tokens, cost: the most the run can use; `cost` in the config's currency, 0 when it has no prices.
    """

    candidates: tuple[Candidate, ...]
    prompts: tuple[int, ...]
    reply: int
    budget: Budget
    tokens: int
    cost: float
    currency: str
    capped: bool

    @property
    def asked(self) -> tuple[Candidate, ...]:
        """The leaves a model is asked for, in order."""
        return tuple(c for c in self.candidates if c.asked)

    @property
    def share_by(self) -> str:
        """What the shares are reckoned from: the machine's performance model, or operations and bytes."""
        modelled = all(c.work.ticks is not None for c in self.candidates)
        return "performance model" if modelled else "operations and bytes"

    def line(self) -> str:
        """Return the plan in a line, for a person."""
        kept = len(self.candidates) - len(self.prompts)
        if not self.prompts:
            return f"no leaf is worth asking for ({kept} stay with the library); --leaf NAME asks for one anyway"
        money = f" ({self.cost:.2f} {self.currency})" if self.cost else ""
        leaves = "leaf" if len(self.prompts) == 1 else "leaves"
        text = f"{len(self.prompts)} {leaves} x {self.budget.attempts} calls: at most about {self.tokens} tokens{money}"
        if kept:
            text += f"; {kept} stay with the library"
        return text + ("; the budget may end the search early" if self.capped else "")

    def to_json(self) -> dict[str, Any]:
        """Return the septran.ask/1 object."""
        prompts = iter(self.prompts)
        return {
            "schema": SCHEMA,
            "leaves": [
                {
                    "task": c.work.spec.task,
                    "spec": c.work.spec.key,
                    "share": round(c.work.share, 4),
                    "share_by": self.share_by,
                    "calls": round(c.work.calls),
                    "flops": round(c.work.flops),
                    "bytes": round(c.work.moved),
                    "asked": c.asked,
                    "kept": c.kept,
                    "opaque": c.work.spec.opaque,
                    "whole": c.whole,
                    "prompt_tokens": next(prompts) if c.asked else None,
                }
                for c in self.candidates
            ],
            "attempts": self.budget.attempts,
            "reply_tokens": self.reply,
            "most_tokens": self.tokens,
            "most_cost": round(self.cost, 4) if self.cost else None,
            "currency": self.currency,
            "capped": self.capped,
        }

    def text(self) -> str:
        """Return the plan as a table, a sentence where there is nothing in it."""
        if not self.candidates:
            return "no model is asked: the library writes every leaf; --writer llm and --writer command ask one\n"
        rows = [("leaf", "share", "calls", "bound", "prompt", "asked")]
        prompts = iter(self.prompts)
        for c in self.candidates:
            w = c.work
            tokens = str(next(prompts)) if c.asked else "-"
            rows.append((w.spec.task, f"{100 * w.share:.1f} %", f"{w.calls:.0f}", w.bound, tokens, c.kept or _asked(c)))  # fmt: skip
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = [
            "  ".join([*(cell.ljust(n) for cell, n in zip(row, widths, strict=False)), row[5]])
            for row in rows
        ]
        return "\n".join([*lines, "", f"shares by {self.share_by}; {self.line()}"]) + "\n"


def _asked(one: Candidate) -> str:
    if one.work.spec.opaque:
        return "yes, opaque: no library has it"
    return "yes, with its loops: they are generated for one map or product" if one.whole else "yes"


def ask_plan(
    found: tuple[Candidate, ...], backend: Backend, config: AgentConfig, budget: Budget
) -> AskPlan:
    """Return what asking for `found` can cost at most; tokens are estimates (no tokenizer), no call is made."""
    reply = config.role("coder").max_tokens
    asked = [c.work.spec for c in found if c.asked]
    prompts = tuple(messages_tokens(render_prompt(s, backend, config)) for s in asked)
    calls = budget.attempts
    cap = int(config.get("context", "prompt_tokens"))
    longest = [calls * (max(p, cap) + reply) for p in prompts]
    most = sum(longest)
    cost = Ledger(config.get("prices")).price(most - calls * reply * len(prompts), calls * reply * len(prompts))  # fmt: skip
    limit = budget.tokens is not None and most > budget.tokens
    dear = budget.cost is not None and cost > budget.cost
    return AskPlan(
        candidates=found,
        prompts=prompts,
        reply=reply,
        budget=budget,
        tokens=most if budget.tokens is None else min(most, budget.tokens),
        cost=cost if budget.cost is None else min(cost, budget.cost),
        currency=str(config.get("prices", "currency")),
        capped=limit or dear,
    )
