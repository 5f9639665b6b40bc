"""A verdict travels as a signed bundle and is verified again elsewhere; a changed one is refused."""

from __future__ import annotations

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from septran.kernel import Kernel, KernelParam
from septran.verify.evidence import _canonical


@pytest.fixture(scope="module")
def bundle(real, tmp_path_factory):
    shop, _, run = real
    path = tmp_path_factory.mktemp("bundle") / "relu.json"
    (one, *_) = sorted((run / "runs").glob("*relu*"))
    done = shop.call("export", str(one), "-o", str(path))
    assert done.code == 0, done.err
    return path


@pytest.mark.wider
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


@pytest.mark.wider
def test_a_strangers_signature_on_a_wrong_kernel_proves_nothing(bundle, own, tmp_path):
    """A signature says who measured. Whoever verifies the bundle runs the kernel and sees for himself."""
    data = json.loads(bundle.read_text())
    about = data["kernel"]
    name, text = about["files"][0]
    head = text.index("relu_entry(void* const* args)")
    end = text.index("\n}\n", head)
    broken = f"{text[:end]}\n    static_cast<float*>(args[0])[3] += 1.0f;{text[end:]}"
    files = ((name, broken), *map(tuple, about["files"][1:]))
    params = tuple(KernelParam(**{**p, "shape": tuple(p["shape"])}) for p in about["params"])
    words = {key: about[key] for key in ("name", "backend", "arch", "entry", "main")}
    about["files"] = files
    about["sha"] = Kernel(**words, params=params, files=files, leaves=()).sha
    data["verdict"]["kernel_sha"] = about["sha"]
    key = Ed25519PrivateKey.generate()
    data["key"] = key.public_key().public_bytes_raw().hex()
    del data["signature"]
    data["signature"] = base64.b64encode(key.sign(_canonical(data))).decode()
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(data))
    done = own.call("verify", "--bundle", str(forged), "--json")
    assert done.code == 1, done.err
    (found,) = done.objects()
    assert found["level"] == "ran"
    assert "V202" in found["reason"]


@pytest.mark.parametrize(
    "where",
    [("verdict", "max_error"), ("verdict", "seed"), ("verdict", "level"), ("verdict", "not_checked"),
     ("kernel", "entry"), ("request", "op"), ("key",), ("signature",)],
)  # fmt: skip
def test_every_part_is_under_the_signature(where, bundle, here, tmp_path):
    data = json.loads(bundle.read_text())
    place = data
    for word in where[:-1]:
        place = place[word]
    old = place[where[-1]]
    place[where[-1]] = ["x"] if isinstance(old, list) else "0" * 64 if isinstance(old, str) else 1
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(data))
    done = here("verify", "--bundle", str(changed))
    assert done.code == 2, done.out + done.err
    assert "V222" in done.err or "V221" in done.err
