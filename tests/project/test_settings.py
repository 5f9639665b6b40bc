"""Layers of configuration: who wins, who set it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import layered as layered_
from septran import settings, spantoml, spanyaml
from septran.errors import ConfigError
from septran.layered import Key, Source, Table, layered

SCHEMA = {
    "rate": Key(kind="float", default=0.5, minimum=0),
    "mode": Key(kind="str", default="slow", choices=("slow", "fast")),
    "extra": Key(kind="map", default={"top_k": 1}),
    "limits": {"tokens": Key(kind="int"), "on": Key(kind="bool", default=True)},
    "roles": Table({"model": Key(kind="str"), "tries": Key(kind="int", default=1)}),
}


def source(text: str, name: str = "file") -> Source:
    return Source(name, spanyaml.loads(text, file=f"{name}.yaml"))


def test_the_later_layer_wins_key_by_key():
    found = layered(
        SCHEMA,
        [
            source("rate: 1\nlimits: {tokens: 10}\nroles: {coder: {model: a, tries: 3}}", "low"),
            source("limits: {on: false}\nextra: {n: 2}\nroles: {coder: {model: b}}", "high"),
        ],
    )
    assert found.values == {
        "rate": 1.0,
        "mode": "slow",
        "extra": {"top_k": 1, "n": 2},
        "limits": {"tokens": 10, "on": False},
        "roles": {"coder": {"model": "b", "tries": 3}},
    }
    assert str(found.origin("rate")) == "low (low.yaml:1)"
    assert found.origin("roles", "coder", "model").layer == "high"
    assert found.origin("mode").layer == "default"


def test_defaults_are_not_shared_between_calls():
    layered(SCHEMA, [source("extra: {n: 2}\nroles: {x: {}}")])
    assert layered(SCHEMA, []).values["extra"] == {"top_k": 1}
    assert layered(SCHEMA, []).values["roles"] == {}


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("rat: 1", "C020", "unknown key 'rat'; did you mean 'rate'?"),
        ("limits: {token: 1}", "C020", "unknown key 'limits.token'; did you mean 'tokens'?"),
        ("roles: {coder: {modle: a}}", "C020", "unknown key 'roles.coder.modle'"),
        ("rate: fast", "C021", "rate: expected a number, found 'fast'"),
        ("rate: true", "C021", "rate: expected a number, found True"),
        ("limits: 3", "C021", "limits holds key: value pairs"),
        ("roles: {coder: 3}", "C021", "coder holds key: value pairs"),
        ("rate: null", "C021", "null is not allowed"),
        ("rate: -1", "C022", "below the minimum 0"),
        ("mode: fats", "C022", "'fats' is not one of slow, fast; did you mean 'fast'?"),
        ("- 1", "C021", "holds key: value pairs"),
    ],
)
def test_bad_files_say_where(text, code, words):
    with pytest.raises(ConfigError) as caught:
        layered(SCHEMA, [source(text)])
    (problem,) = caught.value.diagnostics
    assert problem.code == code
    assert words in problem.message
    assert problem.span is not None and problem.span.file == "file.yaml"


def test_all_problems_at_once_and_flags_without_a_place():
    with pytest.raises(ConfigError) as caught:
        layered(SCHEMA, [source("rat: 1\nmode: x"), Source.plain("--rate", {"rate": "x"})])
    assert caught.value.codes == ("C020", "C022", "C021")
    assert "(set by --rate)" in caught.value.diagnostics[2].message


def test_secrets_are_not_shown():
    with pytest.raises(ConfigError) as caught:
        layered({"key": Key(kind="str", choices=("a",), secret=True)}, [source("key: hunter2")])
    assert "hunter2" not in str(caught.value.diagnostics[0].message)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "3", 3),
        ("int", "x", "x"),
        ("float", "1e3", 1000.0),
        ("bool", "1", True),
        ("str", "1", "1"),
    ],
)
def test_words_of_the_environment(kind, text, value):
    assert layered_.parse_text(Key(kind=kind), text) == value


def project(tmp_path: Path, toml: str) -> Path:
    (tmp_path / "septran.toml").write_text(toml)
    return tmp_path


def test_settings_precedence(tmp_path, fresh_home, monkeypatch):
    (fresh_home / "configs").mkdir()
    (fresh_home / "configs" / "default.yaml").write_text(
        "attempts: 2\ncandidates: 2\nmodel: user\n"
    )
    where = project(tmp_path, 'candidates = 3\nmodel = "toml"\nsearch = "evolve"\n')
    monkeypatch.setenv("SEPTRAN_MODEL", "env")
    found = settings.load(project=where, flags={"search": "best-of", "seed": None})
    assert (found.attempts, found.candidates, found.model) == (2, 3, "env")
    assert (found.search, found.seed, found.writer) == ("best-of", None, "library")
    assert found.origins["attempts"].layer == "user"
    assert str(found.origins["candidates"]).endswith("septran.toml:1)")
    assert [found.origins[k].layer for k in ("model", "search", "seed")] == [
        "SEPTRAN_MODEL",
        "--search",
        "default",
    ]
    assert found.to_json()["writer"]["from"].startswith("bundled (")


def test_settings_fields_and_schema_agree():
    fields = {f.name for f in settings.fields(settings.Settings)}
    assert fields == set(settings.SCHEMA) | {"home", "project", "layers", "origins"}


def test_few_environment_variables():
    assert len(settings.ENVIRONMENT) <= 10
    named = {key.env for key in settings.SCHEMA.values() if key.env}
    assert named <= set(settings.ENVIRONMENT)


def test_a_bad_environment_variable_is_named(monkeypatch):
    monkeypatch.setenv("SEPTRAN_THREADS", "many")
    with pytest.raises(ConfigError, match="set by SEPTRAN_THREADS"):
        settings.load()


@pytest.mark.parametrize(
    ("toml", "code", "line", "col"),
    [
        ("# c\nattemps = 3\n", "C020", 2, 1),
        ("writer = 5\n", "C021", 1, 10),
        ("seed = \n", "C010", 1, 8),
        ("seed = 1\nseed = 2\n", "C010", 2, 9),
        ("[model]\nx = 1\n", "C021", 1, 2),
    ],
)
def test_septran_toml_errors_have_places(tmp_path, toml, code, line, col):
    with pytest.raises(ConfigError) as caught:
        settings.load(project=project(tmp_path, toml))
    (problem,) = caught.value.diagnostics
    assert (problem.code, problem.span.line, problem.span.col) == (code, line, col)


def test_toml_places(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('[a.b]\n  c = 1 # one\n"d" = [\n  2,\n]\ne.f = "x"\n')
    doc = spantoml.load(path)
    assert doc.value == {"a": {"b": {"c": 1, "d": [2], "e": {"f": "x"}}}}
    assert (doc.key_span("a", "b", "c").line, doc.span("a", "b", "c").col) == (2, 7)
    assert doc.key_span("a", "b", "d").line == 3
    assert doc.key_span("a", "b", "e", "f").line == 6
