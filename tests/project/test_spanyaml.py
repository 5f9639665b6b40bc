"""YAML with places: core-schema words, spans, tags, and errors that point at the line."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from septran import spanyaml
from septran.errors import ConfigError, Span


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("true", True),
        ("False", False),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("-3", -3),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("-.inf", -math.inf),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("~", None),
        ("null", None),
        ("", None),
        ("'5'", "5"),
        ('"true"', "true"),
    ],
)
def test_words_mean_what_yaml_1_2_says(text, value):
    found = spanyaml.loads(f"key: {text}\n").value["key"]
    assert found == value
    assert type(found) is type(value)


def test_nan_and_empty_document():
    assert math.isnan(spanyaml.loads("a: .nan").value["a"])
    assert spanyaml.loads("# nothing\n").value is None


def test_keys_are_words_not_bools():
    assert spanyaml.loads("on: 1\nyes: 2\n").value == {"on": 1, "yes": 2}


def test_places_of_keys_values_and_items():
    text = "a:\n  b: [10, twenty]\n  c: {d: 1}\n"
    doc = spanyaml.loads(text, file="m.yaml")
    assert doc.span("a", "b", 1) == Span("m.yaml", 2, 11, 6)
    assert doc.key_span("a", "b") == Span("m.yaml", 2, 3, 1)
    assert doc.span("a", "c", "d") == Span("m.yaml", 3, 10, 1)
    assert doc.span("a", "c", "missing", "deeper") == doc.span("a", "c")
    assert doc.key_span("a", "b", 0) == doc.span("a", "b", 0)


def test_tags_get_the_plain_value_and_the_place():
    seen = []
    doc = spanyaml.loads(
        "x: !tune {type: choice, values: [1, no]}\ny: !tune 7\n",
        tags={"!tune": lambda value, span: seen.append((value, span.line)) or ("tuned", value)},
    )
    assert doc.value == {"x": ("tuned", {"type": "choice", "values": [1, "no"]}), "y": ("tuned", 7)}
    assert [line for _, line in seen] == [1, 2]
    assert doc.span("x", "values", 1).col == 37


@pytest.mark.parametrize(
    ("text", "code", "line", "col"),
    [
        ("a: [1\nb: 2\n", "C010", 2, 2),
        ("a: 1\n\tb: 2\n", "C010", 2, 1),
        ('a: "open\n', "C010", 2, 1),
        ("a: 1\nb: 2\na: 3\n", "C011", 3, 1),
        ("x:\n  {a: 1, a: 2}\n", "C011", 2, 10),
        ("a: !foo 1\n", "C013", 1, 4),
        ("? [1, 2]\n: 3\n", "C014", 1, 3),
        ("a: &x [1, *x]\n", "C014", 1, 4),
    ],
)
def test_broken_files_name_the_place(text, code, line, col):
    with pytest.raises(ConfigError) as caught:
        spanyaml.loads(text, file="bad.yaml")
    (problem,) = caught.value.diagnostics
    assert problem.code == code
    assert problem.span is not None
    assert (problem.span.file, problem.span.line) == ("bad.yaml", line)
    assert problem.span.col == col or code == "C010"


def test_a_duplicate_tells_where_the_first_one_is():
    with pytest.raises(ConfigError, match=r"first given at <text>:1:1"):
        spanyaml.loads("a: 1\na: 2\n")


def test_all_duplicates_are_reported_at_once():
    with pytest.raises(ConfigError) as caught:
        spanyaml.loads("a: 1\na: 2\nb: {c: 1, c: 2}\n")
    assert caught.value.codes == ("C011", "C011")


def test_an_alias_bomb_is_refused():
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(ConfigError, match="too large"):
        spanyaml.loads("\n".join(lines))


def test_an_ordinary_alias_works():
    assert spanyaml.loads("a: &x {n: 1}\nb: *x\n").value == {"a": {"n": 1}, "b": {"n": 1}}


def test_missing_file_names_its_neighbours(tmp_path):
    (tmp_path / "gemm.mapping.yaml").write_text("a: 1\n")
    with pytest.raises(ConfigError) as caught:
        spanyaml.load(tmp_path / "gem.mapping.yaml")
    assert caught.value.codes == ("C012",)
    assert "gemm.mapping.yaml" in caught.value.diagnostics[0].help


@pytest.mark.parametrize("content", [b"a: \xff\xfe", None])
def test_unreadable_files(tmp_path, content):
    path = tmp_path / "x.yaml"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        spanyaml.load(path)
    assert caught.value.codes == ("C012",)


_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12)
    | st.sampled_from(
        ["no", "on", "010", "1e3", "0x1", "true", "~", "", "1_0", ".5", "- a", "a: b"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abno~01", max_size=4), inner, max_size=3)
    ),
    max_leaves=10,
)


@pytest.mark.wider
@given(_PLAIN, st.none() | st.integers(0, 3))
def test_dump_reads_back_equal(value, depth):
    text = spanyaml.dump(value, comment="made by a test", flow_depth=depth)
    assert spanyaml.loads(text).value == value


@given(st.text(st.sampled_from("ab:[]{}&*!-? \n\t'\"#|>0."), max_size=40))
def test_any_text_is_a_value_or_a_config_error(text):
    try:
        spanyaml.loads(text)
    except ConfigError as e:
        assert all(d.span is not None for d in e.diagnostics)


def test_a_text_read_twice_gives_values_of_its_own():
    first = spanyaml.loads("a: [1, {b: 2}]", file="one")
    first.value["a"][1]["b"] = 3
    second = spanyaml.loads("a: [1, {b: 2}]", file="two")
    assert second.value == {"a": [1, {"b": 2}]}
    assert second.span("a", 0).file == "two"
