"""Data files: layers decide file by file; names cannot leave the folders; templates extend what they hide."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import UndefinedError

from septran import assets
from septran.errors import ConfigError


@pytest.fixture
def three(tmp_path: Path) -> tuple[assets.Layer, ...]:
    for name in ("project", "user", "bundled"):
        (tmp_path / name / "mappings").mkdir(parents=True)
        (tmp_path / name / "agents" / "coder").mkdir(parents=True)
    (tmp_path / "bundled/mappings/a.yaml").write_text("bundled")
    (tmp_path / "bundled/mappings/b.yaml").write_text("bundled")
    (tmp_path / "user/mappings/a.yaml").write_text("user")
    (tmp_path / "project/mappings/a.yaml").write_text("project")
    (tmp_path / "user/mappings/c.yaml").write_text("user")
    (tmp_path / "user/mappings/.hidden").write_text("")
    (tmp_path / "user/mappings/__pycache__").mkdir()
    (tmp_path / "user/mappings/__pycache__/x.pyc").write_text("")
    return tuple(assets.Layer(name, tmp_path / name) for name in ("project", "user", "bundled"))


def test_the_strongest_layer_wins_per_file(three):
    found = {a.name: a.layer for a in assets.listing("mappings", among=three)}
    assert found == {
        "mappings/a.yaml": "project",
        "mappings/b.yaml": "bundled",
        "mappings/c.yaml": "user",
    }
    assert assets.read("mappings/a.yaml", among=three) == "project"
    assert [a.layer for a in assets.every("mappings/a.yaml", among=three)] == [
        "project",
        "user",
        "bundled",
    ]
    assert assets.exists("mappings/b.yaml", among=three)
    assert not assets.exists("mappings/z.yaml", among=three)


def test_a_missing_file_names_the_nearest(three):
    with pytest.raises(ConfigError) as caught:
        assets.find("mappings/aa.yaml", among=three)
    assert caught.value.codes == ("C001",)
    assert "mappings/a.yaml" in caught.value.diagnostics[0].help


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "mappings/../../x", "septran/errors.py", "x.yaml", ".."]
)
def test_names_stay_inside_the_folders(name, three):
    with pytest.raises(ConfigError) as caught:
        assets.find(name, among=three)
    assert caught.value.codes == ("C002",)


def test_templates_extend_what_they_hide(three):
    (three[2].root / "agents/coder/system.j2").write_text(
        "{% block rules %}one {{ n }}{% endblock %}.\n"
    )
    (three[1].root / "agents/coder/system.j2").write_text(
        '{% extends "bundled:coder/system.j2" %}{% block rules %}{{ super() }} two{% endblock %}'
    )
    template = assets.environment("agents", among=three).get_template("coder/system.j2")
    assert template.render(n="<1>") == "one <1> two.\n"
    with pytest.raises(UndefinedError, match="'n' is undefined"):
        template.render()


def test_a_template_that_changed_or_got_a_stronger_one_is_read_again(three):
    def said() -> str:
        template = assets.environment("agents", among=three).get_template("coder/user.j2")
        return template.render(n="<1>")

    weak, strong = (layer.root / "agents/coder/user.j2" for layer in (three[-1], three[0]))
    for place, text in ((weak, "one {{ n }}"), (weak, "two {{ n }}"), (strong, "three {{ n }}")):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        assert said() == text.replace("{{ n }}", "<1>")


def test_the_same_template_is_compiled_apart_for_pages_that_escape(three):
    (three[0].root / "agents/coder").mkdir(parents=True, exist_ok=True)
    (three[0].root / "agents/coder/user.j2").write_text("{{ n }}")
    rendered = []
    for escapes in (False, True, False):
        found = assets.environment("agents", among=three)
        found.autoescape = escapes
        rendered.append(found.get_template("coder/user.j2").render(n="<"))
    assert rendered == ["<", "&lt;", "<"]


def test_project_is_found_from_below(tmp_path, monkeypatch):
    (tmp_path / "septran.toml").write_text("")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert assets.find_project(below) == tmp_path.resolve()
    monkeypatch.setenv("SEPTRAN_PROJECT", str(tmp_path))
    assert assets.find_project() == tmp_path.resolve()
    assert [layer.name for layer in assets.layers()] == ["project", "user", "bundled"]


def test_home_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path))
    assert assets.home() == tmp_path
    monkeypatch.delenv("SEPTRAN_HOME")
    assert assets.home() == Path.home() / ".septran"


def test_bundled_holds_the_default_config():
    assert assets.find("configs/default.yaml").layer == "bundled"
