"""A leaf writes no tile that it only reads, under no name."""

from __future__ import annotations

import pytest

from septran.kernel import LeafParam, LeafSpec
from septran.leafgate.inputs import refuse_written_inputs
from septran.leafgate.refusal import Refusal


def _param(name: str, privilege: str) -> LeafParam:
    return LeafParam(
        name=name,
        shape=(1, 67),
        dtype="float32",
        mem="SHARED",
        layout="row",
        privilege=privilege,  # type: ignore[arg-type]
        ragged=(False, False),
        step=(67, 1),
    )


def spec(unread: tuple[str, ...] = ()) -> LeafSpec:
    return LeafSpec(
        task="relu",
        backend="",
        arch="",
        proc="",
        params=(_param("X", "r"), _param("Y", "w")),
        scalars=(),
        prims=(),
        options=(("unread", unread),) if unread else (),
    )


TILES = "vl_tile x = vl_matrix(X);\nvl_tile y = vl_matrix(Y);\n"
WRITTEN = {
    "c": (
        f"{TILES}vendor_lib_vec_scalar(VL_MAX, y, x, 0.0);\nvendor_lib_fill(x, 0.0);",
        f"{TILES}vendor_lib_vec_scalar(VL_MAX, x, x, 0.0);\nvendor_lib_dma_copy(y, x);",
        f"{TILES}vl_binary op = VL_MAX;\nvendor_lib_vec_scalar(op, x, x, 0.0);",
        f"{TILES}vl_tile z = x;\nvl_tile w = z;\nvendor_lib_fill(w, 0.0);",
        "const vl_tile x = vl_matrix(X), y = vl_matrix(Y);\nvendor_lib_fill(x, 0.0);",
        f"{TILES}vl_tile z = y, w = x;\nvendor_lib_fill(w, 0.0);",
        f"{TILES}vl_tile z, w;\nz = w = x;\nvendor_lib_fill(w, 0.0);",
        "vl_tile x = vl_part(vl_matrix(X), 0, 0, 1, 4), y;\nvendor_lib_fill(x, 0.0);",
        "vendor_lib_fill(vl_part(vl_matrix(X), 0, 0, 1, 4), 0.0);",
        "vendor_lib_fill((vl_tile){X.space, X.addr, 1, 4, 4, X.dtype}, 0.0);",
    ),
    "npuir": (
        "T.vmax(X, 0.0, Y)\nT.fill(X, 0.0)",
        "T.vmax(X, 0.0, X)\nT.copy(X, Y)",
        "T.vmax(X, 0.0, Y)\nT.fill(X[0:1, 3:4], 7.0)",
        "z = X[0:1, 0:4]\nw = z\nT.vexp(w, w)",
        "T.vexp(X)",
        "T.copy(Y, dst=X)",
        "X[0, 0] = 1.0",
    ),
}
RIGHT = {
    "c": (
        "const vl_tile y = vl_matrix(Y), x = vl_matrix(X);\nvendor_lib_vec_scalar(VL_MUL, y, x, 2.0);",
        "const vl_tile x = vl_matrix(X), y = vl_matrix(Y);\nvendor_lib_vec_scalar(VL_MUL, y, x, 2.0);",
        f"{TILES}vendor_lib_vec_scalar(VL_MAX, y, x, 0.0);",
        f"{TILES}vl_tile c = vl_temp(scratch, 0, x.rows, X.n[1]);\nvendor_lib_vec_binary(VL_MUL, c, x, x);\nvendor_lib_dma_copy(y, c);",
        f"{TILES}y.rows = x.rows;\nvendor_lib_fill(y, 0.0);",
    ),
    "npuir": (
        "T.vmax(X, 0.0, Y)",
        't = T.alloc_ub([1, 67], "float32")\nT.copy(X, t)\nT.vexp(t, t)\nT.vmax(X, t, Y)',
        'T.reduce(X, Y, dims=[1], reduce_mode="max")',
    ),
}


def text(subset: str, body: str) -> str:
    if subset == "c":
        return f"static void leaf(vl_view X, vl_view Y, vl_tile scratch) {{\n{body}\n}}\n"
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    return f"@T.macro\ndef leaf(X, Y):\n{lines}\n"


@pytest.mark.parametrize(("subset", "body"), [(s, b) for s, all_ in WRITTEN.items() for b in all_])
def test_an_input_is_not_written(subset: str, body: str) -> None:
    with pytest.raises(Refusal, match="is written"):
        refuse_written_inputs(text(subset, body), spec(), subset)
    refuse_written_inputs(text(subset, body), spec(("X",)), subset)


@pytest.mark.parametrize(("subset", "body"), [(s, b) for s, all_ in RIGHT.items() for b in all_])
def test_what_is_its_own_may_be_written(subset: str, body: str) -> None:
    refuse_written_inputs(text(subset, body), spec(), subset)
