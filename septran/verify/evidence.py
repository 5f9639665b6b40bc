"""A verdict as a signed bundle that can be checked, and repeated, elsewhere.

The bundle is one JSON file: the kernel's sources, the verdict with its seeds, shapes, figures and versions, and an
ed25519 signature over their canonical text. The signature says who measured, not that it is true: whoever
doubts it runs the kernel again (`reverify`).
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran import assets
from septran.atomic import write_atomic
from septran.document import plain_text
from septran.errors import InputError
from septran.kernel import Kernel
from septran.outcome import Level
from septran.verify.verdict import Verdict

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SCHEMA = "septran.evidence/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A bundle that was read and whose signature is right. key: the signer's public key, hex.

    request: what the kernel is for (op, backend, arch, dims, dtype), for whoever runs it again.
    certificate: what is proven of its hierarchy, {} when the bundle has none.
    """

    verdict: Verdict
    kernel: Mapping[str, Any]
    key: str
    request: Mapping[str, Any] = field(default_factory=dict)
    certificate: Mapping[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, str]:
        """The kernel's source files."""
        return {str(name): str(text) for name, text in self.kernel["files"]}


def export_bundle(
    kernel: Kernel,
    verdict: Verdict,
    path: Path,
    *,
    home: Path | None = None,
    request: Mapping[str, Any] | None = None,
    certificate: Mapping[str, Any] | None = None,
) -> Path:
    """Write the signed bundle and return its path; the key is made in `home` on first use (0600).

    certificate: the septran.certificate/1 object of the kernel's hierarchy, if there is one.

    Raises:
        InputError: V220, the verdict is not an accurate one of this kernel.
    """
    if not verdict.passed or verdict.kernel_sha != kernel.sha:
        raise InputError.of(
            "V220",
            f"only an accurate verdict of the same kernel can be exported; this one says {verdict.level}",
        )
    if not verdict.not_checked:
        verdict = replace(verdict, level=Level.ATTESTED)
    data = {"schema": SCHEMA, "kernel": kernel_json(kernel), "verdict": verdict.to_json()}
    data["request"] = dict(request or {})
    if certificate is not None:
        data["certificate"] = dict(certificate)
    write_atomic(path, signed(data, home) + "\n")
    return path


def signed(data: Mapping[str, Any], home: Path | None = None) -> str:
    """Return `data` as JSON with this installation's public key and its signature; the key is made on first use."""
    key = _private_key(home or assets.home())
    about = {**data, "key": key.public_key().public_bytes_raw().hex()}
    signature = base64.b64encode(key.sign(_canonical(about))).decode()
    return json.dumps({**about, "signature": signature}, indent=1, sort_keys=True)


def signer(data: dict[str, Any], path: Path) -> str:
    """Return the public key (hex) that signed `data`, from which the signature is taken.

    Raises:
        InputError: V222, the signature does not fit. KeyError, ValueError, TypeError: there is none.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    signature = base64.b64decode(data.pop("signature"))
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(data["key"]))
    try:
        public.verify(signature, _canonical(data))
    except InvalidSignature as error:
        raise InputError.of("V222", f"{path}: the signature does not fit the contents") from error
    return str(data["key"])


def own_key(home: Path | None = None) -> str:
    """Return this installation's public key (hex), "" when it never signed anything."""
    path = (home or assets.home()) / "evidence.key"
    if not path.is_file():
        return ""
    return _private_key(path.parent).public_key().public_bytes_raw().hex()


def read_bundle(path: Path) -> Bundle:
    """Return the bundle at `path` once its signature is checked.

    Raises:
        InputError: V221 unreadable or of another schema, V222 signature or source hash wrong.
    """
    try:
        data = json.loads(plain_text(path))
        key = signer(data, path)
        _well_formed(data)
        verdict = Verdict.from_json(data["verdict"])
        kernel = data["kernel"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError.of("V221", f"{path} is not an evidence bundle: {error}") from error
    if kernel["sha"] != verdict.kernel_sha:
        raise InputError.of("V222", f"{path}: the verdict is about another kernel")
    return Bundle(
        verdict=verdict,
        kernel=kernel,
        key=key,
        request=data.get("request") or {},
        certificate=data.get("certificate") or {},
    )


def _well_formed(data: Mapping[str, Any]) -> None:
    """Refuse what the readers of a bundle do not expect: whoever signed it wrote every value of it.

    Raises:
        ValueError: which part is not what it has to be. KeyError: it is missing.
    """
    kernel, request = data["kernel"], data.get("request") or {}
    for where, part in (("kernel", kernel), ("request", request), ("verdict", data["verdict"])):
        _demand(where, part, dict)
    _demand("certificate", data.get("certificate") or {}, dict)
    for name in ("name", "backend", "arch", "entry", "main", "sha"):
        _demand(f"kernel.{name}", kernel[name], str)
    _demand("kernel.files", kernel["files"], list)
    for file in kernel["files"]:
        if not (isinstance(file, list) and [type(part) for part in file] == [str, str]):
            raise ValueError("kernel.files holds what is not [name, text]")
        "".join(file).encode()  # a lone surrogate is no text
    for leaf in _demand("kernel.leaves", kernel.get("leaves") or [], list):
        _demand("kernel.leaves", leaf, dict)
    for name in ("op", "dtype"):
        if request.get(name) is not None:
            _demand(f"request.{name}", request[name], str)
    for dim in _demand("request.dynamic", request.get("dynamic", []), list):
        _demand("request.dynamic", dim, str)
    for size in _demand("verdict.dims", data["verdict"].get("dims", {}), dict).values():
        if type(size) is not int:
            raise ValueError(f"verdict.dims has the size {size!r}")


def _demand(where: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{where} is {type(value).__name__} and not {kind.__name__}")
    return value


def verify_bundle(path: Path, rerun: Callable[[Bundle], Verdict]) -> tuple[Bundle, Verdict]:
    """Return the bundle and the verdict of running its kernel again.

    `rerun` builds the bundle's sources and verifies them with `bundle.verdict.seed` or a new secret one;
    it is given by the caller, because backends are not the evidence's business.
    """
    bundle = read_bundle(path)
    return bundle, rerun(bundle)


_NAME = re.compile(r"[A-Za-z0-9_][\w.+-]*(/[A-Za-z0-9_][\w.+-]*)*")
_ENTRY = re.compile(r"[A-Za-z_]\w*")
_LONGEST = 200


def bad_name(files: Iterable[str], main: str, entry: str) -> str:
    """Return what is wrong with the names of a kernel that somebody else wrote down, "" when nothing.

    A file stays below the kernel's folder, and no name can be read as a compiler's option (`-wrapper`) or
    as a file of options (`@file`).
    """
    names = list(files)
    for name in names:
        if not _NAME.fullmatch(name) or ".." in name.split("/") or len(name) > _LONGEST:
            return f"file name {name[:_LONGEST]!r} leaves the kernel's folder or is no plain name"
        if any(other.startswith(f"{name}/") for other in names):
            return f"file name {name!r} is a folder of other files"
    if main not in names:
        return f"there is no file {main!r}"
    return "" if _ENTRY.fullmatch(entry) else f"entry {entry!r} is no name of a function"


def kernel_json(kernel: Kernel) -> dict[str, Any]:
    """Return a kernel as plain values, its leaves by name and hash."""
    found = asdict(replace(kernel, leaves=()))
    found["sha"] = kernel.sha
    found["leaves"] = [
        {"task": leaf.spec.task, "name": leaf.name, "writer": leaf.writer, "sha": leaf.sha}
        for leaf in kernel.leaves
    ]
    return found


def _canonical(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), default=str).encode()


def _private_key(home: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path = home / "evidence.key"
    if not path.exists():
        home.mkdir(parents=True, exist_ok=True)
        raw = Ed25519PrivateKey.generate().private_bytes_raw()
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            pass  # another process was first; its key is ours
        else:
            with os.fdopen(fd, "wb") as stream:
                stream.write(raw)
    return Ed25519PrivateKey.from_private_bytes(path.read_bytes())
