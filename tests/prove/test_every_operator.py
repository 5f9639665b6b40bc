"""What the library makes of each operator is proven: a pass that the proofs do not know shows here."""

from __future__ import annotations

import pytest

from septran.plan.resolve import GenRequest
from septran.run.prove import prove_request
from tests.backends.operators import all_operators


@pytest.mark.wider
def test_every_operator_on_cpp_is_proven() -> None:
    """Attention by itself is among the default tests (tests/passes/test_drop_copies.py)."""
    broken = {}
    for op, (operator, _) in all_operators().items():
        for dtype in operator.dtypes[:2]:
            asked = GenRequest(op=op, backend="cpp", dtype=dtype)
            certificate = prove_request(asked).certificate
            if not certificate.holds:
                broken[op, dtype] = [r.rule for r in certificate.rules if r.state != "proved"]
    assert not broken
