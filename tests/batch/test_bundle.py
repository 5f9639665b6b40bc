"""A verdict travels as a signed bundle and is verified again elsewhere; a changed one is refused."""

from __future__ import annotations

import json

import pytest


@pytest.fixture(scope="module")
def bundle(real, tmp_path_factory):
    shop, _, run = real
    path = tmp_path_factory.mktemp("bundle") / "relu.json"
    (one, *_) = sorted((run / "runs").glob("*relu*"))
    done = shop.call("export", str(one), "-o", str(path))
    assert done.code == 0, done.err
    return path


def test_verified_elsewhere(bundle, own):
    done = own.call("verify", "--bundle", str(bundle), "--json")
    assert done.code == 0, done.err
    (found,) = done.objects()
    assert (found["op"], found["level"]) == ("relu", "accurate")
    assert found["bundle"]["level"] in ("accurate", "attested")


def test_a_changed_source_is_refused(bundle, own, tmp_path):
    data = json.loads(bundle.read_text())
    data["kernel"]["files"][0][1] += "\n// one more line\n"
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(data))
    done = own.call("verify", "--bundle", str(changed))
    assert done.code == 2 and "V222" in done.err
