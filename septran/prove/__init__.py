"""Proofs about the hierarchy of a Program: for every iteration, and for every size that stays symbolic.

    certificate = prove(program, reference)

The rules are decided by integer sets (isl), exactly: no sample of iterations, no run. They say nothing about
leaf bodies, floating point or the hardware; docs/verification.md lists what is proven,
trusted and tested.
"""

from septran.ir.nodes import Dim
from septran.prove.certificate import Certificate, Finding, RuleResult
from septran.prove.prove import ASSUMPTIONS, RULES, Finished, prove
from septran.prove.sets import NotAffine

__all__ = [
    "ASSUMPTIONS",
    "RULES",
    "Certificate",
    "Dim",
    "Finding",
    "Finished",
    "NotAffine",
    "RuleResult",
    "prove",
]
