"""Kernels as other people write them, honest and with the mistakes that people report: corpus.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent / "kernels"
REFERENCES = HERE / "references"


@dataclass(frozen=True, kw_only=True)
class Honest:
    """A file that is right. entry: "" for the only host function. numbers: `--number`.

    proved: rules that the text proves. why: a part of the reason for which a rule is not.
    """

    file: str
    reference: str
    entry: str = ""
    numbers: dict[str, float | int] = field(default_factory=dict)
    proved: tuple[str, ...] = ("bounds", "races")
    why: str = ""

    @property
    def name(self) -> str:
        return f"{self.file}:{self.entry}" if self.entry else self.file

    def text(self) -> str:
        return (HERE / self.file).read_text(encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Bug:
    """`honest` with `old` replaced by `new`. findings: any of these classes is right. code: of the proof that names it."""

    name: str
    honest: Honest
    old: str
    new: str
    findings: tuple[str, ...]
    code: str = ""

    def text(self) -> str:
        text = self.honest.text()
        assert text.count(self.old) == 1, f"{self.name}: {text.count(self.old)} places"
        return text.replace(self.old, self.new)


_READ = tomllib.loads((Path(__file__).parent / "corpus.toml").read_text(encoding="utf-8"))
HONEST = [Honest(**{**h, "proved": tuple(h.get("proved", Honest.proved))}) for h in _READ["honest"]]
_NAMED = {h.name: h for h in HONEST}
BUGS = [
    Bug(
        name=b["name"],
        honest=_NAMED[b["of"]],
        old=b["old"],
        new=b["new"],
        findings=tuple(b["findings"]),
        code=b.get("code", ""),
    )
    for b in _READ["bug"]
]
