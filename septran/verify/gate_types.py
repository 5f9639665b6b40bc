"""What a static gate reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing a kernel may not contain. where: "leaf name:line" or a symbol's place."""

    kind: str
    what: str
    where: str = ""

    def __str__(self) -> str:
        return (
            f"{self.where}: {self.what} ({self.kind})"
            if self.where
            else f"{self.what} ({self.kind})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """Findings (any refuses the kernel) and gate parts that could not run, with the reason."""

    findings: tuple[Finding, ...] = ()
    not_checked: tuple[str, ...] = ()
