"""The contract and the prompt: what a model is told, in what order things are dropped, and how long it gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from septran.agent.chat import messages_tokens
from septran.agent.config import load, override
from septran.agent.contract import broadcast_indices, meaning, primitive_words, render_leafspec
from septran.agent.moved import moved
from septran.agent.prompt import Context, Prompter, Shown, render_prompt, shorten
from septran.agent.roles import load_role, messages
from septran.errors import ConfigError
from septran.ir.nodes import Prim
from septran.kernel import LeafSpec
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.judge import distinct_specs
from tests.agent.leaves import BACKEND, GEMM, RELU, SOFTMAX, param, spec

CONFIG = load("cpp")


@pytest.mark.parametrize(
    ("leaf", "lines"),
    [
        (RELU, ["map: Y[i, j] = max(X[i, j], 0)"]),
        (GEMM, ["gemm_acc: C[i, j] += sum over k of A[i, k] * B[k, j]"]),
        (
            SOFTMAX,
            [
                "reduce: m[i, 0] = max over j of X[i, j]",
                "map: Y[i, j] = exp(X[i, j] - m[i, 0])",
            ],
        ),
    ],
)
def test_meaning(leaf: LeafSpec, lines: list[str]) -> None:
    assert [meaning(leaf, p) for p in leaf.prims] == lines


@pytest.mark.parametrize(
    ("prim", "text"),
    [
        (Prim(name="fill", out="Y", attrs=(("value", 0),)), "fill: Y[i, j] = 0"),
        (Prim(name="copy", out="Y", ins=("X",)), "copy: Y[i, j] = X[i, j]"),
        (
            Prim(name="transpose", out="Y", ins=("X",), attrs=(("perm", (1, 0)),)),
            "transpose: Y[i, j] = X[j, i]",
        ),
        (
            Prim(name="map", out="Y", named=(("b", "b"),), attrs=(("expr", "b + exp(b)"),)),
            "map: Y[i, j] = b[0, j] + exp(b[0, j])",
        ),
        (
            Prim(name="reduce_acc", out="r", ins=("X",), attrs=(("axis", -1), ("op", "sum"))),
            "reduce_acc: r[i, 0] = r[i, 0] + (sum over j of X[i, j])",
        ),
        (
            Prim(name="gemm", out="Y", ins=("X", "X"), attrs=(("trans_b", True),)),
            "gemm: Y[i, j] = sum over k of X[i, k] * X[j, k]",
        ),
    ],
)
def test_meaning_of_each_primitive(prim: Prim, text: str) -> None:
    leaf = spec(
        "t",
        (
            param("Y", (8, 8), "w"),
            param("X", (8, 8), "r"),
            param("b", (1, 8), "r"),
            param("r", (8, 1), "rw"),
        ),
        prim,
    )
    assert meaning(leaf, prim) == text


@pytest.mark.parametrize(
    ("attrs", "text"),
    [
        (
            {"name": "scan", "op": "sum", "axis": 1},
            "scan: Y[i, j] = sum of X[i, r] over r <= j: the element itself is in it",
        ),
        (
            {"name": "scan", "op": "max", "axis": 0, "reverse": True},
            "scan: Y[i, j] = max of X[r, j] over r >= i (from the end): the element itself is in it; NaN stays from where it occurs",
        ),
        (
            {"name": "argreduce", "op": "min", "axis": 1},
            "argreduce: Y[i, 0] = the position r of the smallest X[i, r], the first of equal ones; the first NaN where there is one",
        ),
        (
            {"name": "gather", "axis": 1},
            "gather: Y[i, j] = X[i, r] with r = I[i, j], 0 where r is outside; a dim of size 1 of either operand is read at 0",
        ),
        (
            {"name": "scatter_acc", "op": "last", "axis": 0},
            "scatter_acc: X[i, j] is stored to Y[r, j] with r = I[i, j], for i = 0, 1, .. in this order, nothing where r is outside",
        ),
        (
            {"name": "scatter_acc", "op": "sum", "axis": 1},
            "scatter_acc: X[i, j] is combined (sum) into Y[i, r] with r = I[i, j], for j = 0, 1, .. in this order, nothing where r is outside",
        ),
    ],
)
def test_meaning_along_an_axis(attrs: dict[str, object], text: str) -> None:
    name = str(attrs.pop("name"))
    prim = Prim(name=name, out="Y", ins=("X", "I"), attrs=tuple(attrs.items()))
    assert f"{name}: {moved(prim, 2)}" == text


def test_broadcasting() -> None:
    assert broadcast_indices((4, 1), (4, 8)) == (0, None)
    assert broadcast_indices((8,), (4, 8)) == (1,)
    assert broadcast_indices((1, 1), (1, 1)) == (0, 1)


def test_leafspec_names_everything() -> None:
    text = render_leafspec(GEMM, BACKEND)
    for part in (
        BACKEND.signature(GEMM), "float32 [<=32 x <=48]", "read and written", "read only", "in SHARED",
        "accumulate in float32", "never read or write outside", GEMM.key, "CORE",
        "sums and products within 8 u times the sum of the absolute terms", "May be called: ",
        "Machine: ", "16 float32 with AVX-512",
    ):  # fmt: skip
        assert part in text


def test_the_key_is_stable_and_complete() -> None:
    assert RELU.key == replace(RELU).key
    other = replace(RELU, params=(RELU.params[0], replace(RELU.params[1], dtype="float16")))
    assert len({RELU.key, other.key, replace(RELU, arch="generic").key, GEMM.key}) == 4


@pytest.mark.parametrize("leaf", [RELU, GEMM, SOFTMAX])
@pytest.mark.parametrize("role", ["coder", "designer"])
def test_prompts_are_short(leaf: LeafSpec, role: str) -> None:
    found = render_prompt(leaf, BACKEND, CONFIG, role=role)
    assert [m.role for m in found] == ["system", "user"]
    assert messages_tokens(found) < 6000
    assert "{{" not in found[0].text + found[1].text
    assert "{test=" not in found[0].text
    if role == "coder":
        assert "// YOUR CODE" in found[1].text


def test_rendering_is_deterministic() -> None:
    assert render_prompt(SOFTMAX, BACKEND, CONFIG) == render_prompt(SOFTMAX, BACKEND, CONFIG)


def test_suggestion_rows_come_by_task_and_by_error() -> None:
    prompter = Prompter.of(GEMM, BACKEND, CONFIG)
    last = Shown(body="x", status="compile_error", message="m")

    def text(log: str, template: str = "repair") -> str:
        return prompter.render("coder", template, Context(last=last, log=log))[1].text

    plain = text("nothing known")
    named = text("error: no match for ‘operator[]’ (operand types are ..)")
    assert "| gemm, gemm_acc |" in plain
    assert "| transpose |" not in plain
    assert "no match for" not in plain
    assert "no match for" in named
    assert "one index per dimension" not in named
    best = Shown(body="y", text="right")
    tuned = prompter.render("coder", "optimise", Context(best=best, last=last))[1].text
    first = render_prompt(GEMM, BACKEND, CONFIG)[1].text
    for always in ("Stride-1 innermost loop", "Vector registers: 32", "Accumulate in float32", "| trap |"):  # fmt: skip
        assert all(always in prompt for prompt in (first, plain, named, tuned)), always
    assert "Work of a full tile: 49,152 operations" in first


def test_trimming_drops_the_past_before_the_contract() -> None:
    lines = tuple(f"attempt {i} (repair): wrong: {'x' * 150}" for i in range(9))
    context = Context(
        earlier=lines, last=Shown(body="BODY", status="wrong", message="m" * 9000), log="signal 11"
    )
    sizes, texts = [], []
    for limit in (9000, 5200, 3000, 500):
        small = load("cpp", over=[override("t", {"context": {"prompt_tokens": limit}})])
        found = Prompter.of(RELU, BACKEND, small).render("coder", "repair", context)
        sizes.append(messages_tokens(found))
        texts.append(found[0].text + found[1].text)
    assert sizes == sorted(sizes, reverse=True)
    assert "attempt 8" in texts[0]
    assert "attempt 1 " not in texts[0], "only the last few attempts are shown"
    assert "attempt 8" not in texts[2]
    for text in texts:
        assert "BODY" in text
        assert RELU.symbol in text
        assert "YOUR CODE" in text


def test_docs_can_be_left_out_for_small_models() -> None:
    none = load("cpp", over=[override("t", {"context": {"docs": "none"}})])
    found = render_prompt(RELU, BACKEND, none)
    assert messages_tokens(found) < 900
    assert "v.n[0] the extent" in found[0].text, "how an operand is read is no secret even so"


def test_text_of_replies_is_never_a_template() -> None:
    evil = "{{ 7 * 7 }} {% include 'coder/system.j2' %}"
    context = Context(last=Shown(body=evil, status="wrong", message=evil), plan=evil, advice=evil)
    text = Prompter.of(RELU, BACKEND, CONFIG).render("coder", "repair", context)[1].text
    assert text.count(evil) == 4


def test_shorten_keeps_both_ends() -> None:
    text = "first error" + "x" * 5000 + "last line"
    short = shorten(text, 300)
    assert short.startswith("first error")
    assert short.endswith("last line")
    assert len(short) < 400
    assert shorten("abc", 300) == "abc"


@pytest.mark.parametrize("role", ["coder", "designer", "conductor", "optimizer"])
def test_roles_load(role: str) -> None:
    assert load_role(role).name == role


def test_an_unknown_variable_in_a_template_is_an_error() -> None:
    with pytest.raises(ConfigError) as caught:
        messages("coder", "first", {"language": "cpp"})
    assert caught.value.codes == ("C043",)


def test_primitive_words() -> None:
    assert {"gemm", "gemm_acc", "float32"} <= primitive_words(GEMM)
    assert {"softmax", "reduce", "max"} <= primitive_words(SOFTMAX)


def test_the_optimizer_is_told_what_is_predicted_where_nothing_was_measured():
    def text(best: Shown) -> str:
        return Prompter.of(GEMM, BACKEND, CONFIG).render("optimizer", "user", Context(best=best))[1].text  # fmt: skip

    said = "predicted, not measured: 95.6 us, bound by arithmetic"
    assert f"Nothing measured it here. {said}" in text(
        Shown(body="y", text="right", predicted=said)
    )
    assert "Nothing measured" not in text(Shown(body="y", text="1.2 x the library's speed"))


@pytest.mark.parametrize(("role", "template"), [("coder", "optimise"), ("optimizer", "user")])
def test_the_best_body_is_shown_once_when_it_is_the_last_one(role: str, template: str) -> None:
    best = Shown(body="BEST BODY\n", text="right, 1.10 x the library's speed")
    last = Shown(body="BEST BODY", status="ok", message="right, 1.10 x the library's speed")

    def text(last: Shown) -> str:
        context = Context(best=best, last=last, earlier=("attempt 1 (first): wrong: x",))
        return Prompter.of(RELU, BACKEND, CONFIG).render(role, template, context)[1].text

    same, other = text(last), text(replace(last, body="ANOTHER BODY", message="slower"))
    assert same.count("BEST BODY") == 1
    assert "The last body" not in same
    assert "The best right body so far, which is the last one (right, 1.10 x" in same
    assert "attempt 1 (first): wrong" in same, "earlier attempts stay"
    assert other.count("BEST BODY") == other.count("ANOTHER BODY") == 1
    assert "The best right body so far (right, 1.10 x" in other


@pytest.mark.parametrize(("backend", "clock"), [("cpp", True), ("tilelang_cuda", False)])
def test_a_clock_is_promised_only_where_there_is_one(backend: str, clock: bool) -> None:
    plan = resolve(GenRequest(op="relu", backend=backend))
    (spec,) = distinct_specs(lower_plan(plan).program)
    text = render_leafspec(spec, plan.backend)
    assert ("Then the kernel is timed" in text) is clock
    assert ("a simulator's cycles" in text) is not clock
