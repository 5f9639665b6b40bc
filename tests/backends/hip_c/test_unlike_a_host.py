"""What a host's floats do and a GPU's do not: a leaf that asks is judged as the GPU would compute it."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import settings
from septran.environment.step import Reward, Submission, step
from septran.environment.tasks import Asked

ASKED = Asked(op="relu", backend="hip_c", dims={"N": 67})
RIGHT = "st::from<float>(st::maximum(st::to(X[e]), 0.0f))"
LARGE = "const float z = INFINITY * (1.0f + threadIdx.x);\n"


def judged(body: str, tmp_path: Path) -> Reward:
    sent = Submission(asked=ASKED, leaf="relu_leaf", reply=f"```\n{body}\n```\n")
    return step(sent, settings=settings.load(project=tmp_path), work=tmp_path)


def where(condition: str, before: str = LARGE) -> str:
    return (
        f"{before}st::each(Y, [&](st::At e, st::idx) {{ Y[e] = {condition} ? {RIGHT} : 0.0f; }});"
    )


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(where("__float_as_int(z - z) < 0"), "V202", id="the sign of a NaN"),
        pytest.param(where("copysignf(1.0f, z - z) < 0.0f"), "V202", id="a NaN's sign, copied"),
        pytest.param(where("(int)z < 0"), "V202", id="a cast"),
        pytest.param(where("k < 0", f"{LARGE}int32_t k = z;\n"), "V209", id="no cast"),
        pytest.param(where("int32_t(z) < 0"), "V202", id="a cast that looks like a call"),
        pytest.param(where("k == -16843010", "int32_t k;\n"), "V202", id="nobody set it"),
        pytest.param(where("X[e] != 12345.678f", ""), "V202", id="a number of its text"),
    ],
)
def test_it_is_wrong(body: str, code: str, tmp_path: Path) -> None:
    assert judged(body, tmp_path).code == code


@pytest.mark.wider
@pytest.mark.parametrize(
    "body",
    [
        where("k >= 0", f"{LARGE}int32_t k = (int)z;\n"),
        *(
            pytest.param(body, marks=pytest.mark.wider)
            for body in (
                where("__float_as_int(X[e]) != 0 || X[e] == 0.0f", ""),
                where("k == 3", "const float z = 3.5f;\nint32_t k = z;\n"),
            )
        ),
    ],
)
def test_it_is_right(body: str, tmp_path: Path) -> None:
    found = judged(body, tmp_path)
    assert found.rung == "accurate", found.message
