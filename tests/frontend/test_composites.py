"""Decomposing with the remembered kernels of composite operators: the same graph, torch as before, and no kernel made twice."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses import fake_impls
from torch.export import exported_program

from septran.frontend.child.composites import remembered

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about its own export


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lines = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU())
        self.kernel = torch.nn.Conv1d(3, 2, 3, padding=1)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.lines(self.drop(x))
        attended = torch.nn.functional.scaled_dot_product_attention(y, y, y)
        found = torch.nn.functional.silu(self.kernel(attended).flatten(1))
        return torch.nn.functional.layer_norm(found, (16,))


def _decomposed() -> str:
    with torch.no_grad():
        program = torch.export.export(_Model().eval(), (torch.ones(4, 3, 6),))
        return program.run_decompositions({}).graph_module.print_readable(print_output=False)


def _kernels() -> dict[str, dict[object, object]]:
    names = (n for n in torch.ops.aten if not n.startswith("_"))
    packets = [getattr(torch.ops.aten, n) for n in names]
    found = [getattr(p, o) for p in packets for o in p.overloads()]
    return {str(one): dict(one.py_kernels) for one in found}


def test_the_graph_is_the_same_and_torch_is_as_before():
    plain, kernels = _decomposed(), _kernels()
    rules = dict(fake_impls.op_implementations_dict)
    for _ in range(3):
        with remembered():
            assert _decomposed() == plain
    assert _kernels() == kernels
    assert fake_impls.op_implementations_dict == rules
    assert _decomposed() == plain


def test_a_kernel_is_made_once(monkeypatch):
    made = []
    own = exported_program.autograd_not_implemented
    monkeypatch.setattr(
        exported_program, "autograd_not_implemented", lambda *a, **k: made.append(a) or own(*a, **k)
    )
    vars(exported_program).pop("_septran_composites", None)
    with remembered():
        _decomposed()
        assert len(made) > 1000
        made.clear()
        _decomposed()
    assert len(made) < 100


@pytest.mark.wider
def test_an_operator_that_has_another_kernel_by_now_is_given_new_ones():
    operator, key = torch.ops.aten.linear.default, torch._C.DispatchKey.SparseCPU
    with remembered():
        _decomposed()
        operator.py_impl(key)(another := lambda *a: None)
        try:
            with exported_program._override_composite_implicit_decomp(
                {operator: exported_program._special_op_to_preserve_cia}
            ):
                assert operator.py_kernels[key] is another
        finally:
            del operator.py_kernels[key]
            operator._dispatch_cache.clear()
        _decomposed()
        assert key not in operator.py_kernels


def test_a_torch_without_these_parts_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(
        exported_program, "_override_composite_implicit_decomp", own := lambda table, safe: None
    )
    with remembered():
        assert exported_program._override_composite_implicit_decomp is own
