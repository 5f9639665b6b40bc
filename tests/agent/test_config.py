"""The agent's configuration: layers, origins, and mistakes with their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import assets
from septran.agent.config import SCHEMA, load, override
from septran.agent.workflow import CONDITIONS, MODES, choose
from septran.errors import ConfigError

DSLS = sorted(
    a.name.removeprefix("configs/vllm_dsl_").removesuffix("_config.yaml")
    for a in assets.listing("configs")
    if a.name.startswith("configs/vllm_dsl_")
)


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_dsl_has_a_config() -> None:
    assert {
        "cpp", "cuda_c", "hip_c", "tilelang_cuda", "tilelang_hip", "tilelang_npuir", "dsa_c", "triton_cuda", "triton_hip"
    } <= set(DSLS)  # fmt: skip


@pytest.mark.parametrize("dsl", DSLS)
def test_the_bundled_configs_load(dsl: str) -> None:
    config = load(dsl)
    assert config.get("dsl") == dsl
    assert config.get("docs_dir") == f"dsl_docs/{dsl}"
    assert config.workflow[1].when == ("start",)
    assert len(config.to_json()) >= 40


def test_layers_and_origins(tmp_path: Path) -> None:
    file = write(tmp_path, "request: {temperature: 0.1}\nextra_body: {top_k: 3}\n")
    flags = override("--model", {"model": "m", "budget": {"tokens": None}})
    config = load("cpp", file=file, over=[flags])
    shown = config.to_json()
    assert shown["request.temperature"] == {"value": 0.1, "from": f"--config ({file}:1)"}
    assert shown["model"]["from"] == "--model"
    assert shown["request.max_tokens"]["from"].startswith("bundled (")
    assert shown["budget.tokens"] == {"value": None, "from": "default"}
    assert config.role("coder").model == "m"
    assert dict(config.role("coder").extra) == {"top_k": 3}
    assert dict(config.role("conductor").options)["temperature"] == 0.0


def test_project_and_user_files_overlay(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "agent.yaml").write_text("goal: 1.5\n")
    layers = (assets.Layer("project", tmp_path), assets.Layer("bundled", assets.bundled()))
    config = load("cpp", among=layers)
    assert config.get("goal") == 1.5
    assert config.get("request", "max_tokens") == 4096


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("modle: x", "C020", "did you mean 'model'?"),
        ("request: {temprature: 1}", "C020", "did you mean 'temperature'?"),
        ("request: {temperature: hot}", "C021", "expected a number"),
        ("client: {retries: -1}", "C022", "below the minimum"),
        ("search: {kind: evolv}", "C022", "did you mean 'evolve'?"),
        ("extra_body: {guided_json: {}}", "C040", "structured_outputs"),
        ("extra_body: {n: 4}", "C040", "set by SepTran"),
        ("request: {max_tokens: 900}\ncontext: {max_model_len: 800}", "C040", "does not fit"),
        ("roles: {codr: {model: x}}", "C040", "known: coder"),
        ("min_gain: 2.0", "C040", "goal is below"),
        ("workflow: [{when: start, ask: [coder], mode: frist}]", "C042", "did you mean 'first'?"),
        ("workflow: [{when: strat, ask: [coder]}]", "C042", "did you mean 'start'?"),
        ("workflow: [{when: start}]", "C042", "either ask or stop"),
        ("workflow: [{when: start, ask: [coder, designer]}]", "C042", "ends with the coder"),
        ("workflow: [{when: goal, stop: x}]", "C042", "no step for `start`"),
        ("workflow: [{when: start, aks: [coder]}]", "C042", "did you mean 'ask'?"),
    ],
)
def test_mistakes_name_their_place(text: str, code: str, says: str, tmp_path: Path) -> None:
    file = write(tmp_path, text + "\n")
    with pytest.raises(ConfigError) as caught:
        load("cpp", file=file)
    assert code in caught.value.codes
    assert says in str(caught.value)
    assert caught.value.exit_code == 2
    if code != "C042" or "no step" not in says:
        assert f"{file}:" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "api_key: sk-abcdefghijklmnop1234",
        "roles: {coder: {api_key: abcdef}}",
        "base_url: http://user:abcdefghij@host/v1",
        "extra_body: {headers: {Authorization: Bearer abcdefghijkl}}",
        "model: sk-abcdefghijklmnop1234",
    ],
)
def test_a_key_in_a_file_is_refused_and_not_shown(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load("cpp", file=write(tmp_path, text + "\n"))
    assert caught.value.codes == ("C041",)
    assert "abcdef" not in str(caught.value)
    assert "mine.yaml:1:" in str(caught.value)


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load("cpp", file=write(tmp_path, "modle: x\nrequest: {temperature: hot}\n"))
    assert caught.value.codes == ("C020", "C021")


def test_unknown_dsl() -> None:
    with pytest.raises(ConfigError) as caught:
        load("cppp")
    assert "vllm_dsl_cpp_config.yaml" in str(caught.value)


def test_default_workflow_answers_every_state() -> None:
    """Whatever the state, there is a step: the loop cannot end for lack of one."""
    steps = load("cpp").workflow
    assert choose(steps, frozenset({"start"})) is not None
    statuses = ["unusable", "compile_error", "rejected", "crash", "timeout", "wrong", "unavailable"]
    for status in statuses:
        for more in (
            (),
            ("repeated",),
            ("stuck",),
            ("cut",),
            ("verified",),
            ("verified", "plateau"),
        ):
            assert choose(steps, frozenset({"failed", status, *more})) is not None
    for more in ((), ("unmeasured",), ("faster",), ("faster", "goal"), ("plateau",), ("repeated",)):
        assert choose(steps, frozenset({"verified", *more})) is not None
    used = {w.removeprefix("not ") for s in steps for w in s.when}
    assert used <= set(CONDITIONS)
    assert {s.mode for s in steps} <= set(MODES)


def test_schema_has_no_place_for_a_key() -> None:
    assert "api_key" not in SCHEMA
