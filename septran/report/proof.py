"""The page of a certificate: its rules, and a picture of each witness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from septran import assets
from septran.report.picture import pictures

Findings = tuple[tuple[Mapping[str, Any], tuple[str, ...]], ...]


def findings(certificate: Mapping[str, Any]) -> Findings:
    """Return what refused the rules of a septran.certificate/1 object, each with its pictures."""
    found = [f for rule in certificate["rules"].values() for f in rule.get("findings", ())]
    return tuple((f, pictures(f)) for f in found)


def write_proof(certificate: Mapping[str, Any], guilty: str = "") -> str:
    """Return the HTML page of a septran.certificate/1 object; guilty: the pass that broke a rule."""
    found = findings(certificate)
    return assets.page("proof", proof=certificate, guilty=guilty, findings=found)
