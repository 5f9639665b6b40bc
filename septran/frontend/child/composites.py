"""What torch puts in place of some 500 composite operators each time a program is decomposed, remembered from the first time.

`run_decompositions` keeps each composite operator whole by giving it some ten kernels, and takes them away behind it. That is
three quarters of the time of an export. The kernels are the same ones each time, so they are kept with the operator's own
ones: an operator that has other kernels by then is given new ones by torch.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from torch._export import utils
from torch._subclasses import fake_impls
from torch.export import exported_program

_NAMES = (
    (exported_program, "_override_composite_implicit_decomp"),
    (exported_program, "_split_decomp_table_to_cia_and_python_decomp"),
    (utils, "_materialize_cpp_cia_ops"),
    (utils, "_special_op_to_preserve_cia"),
    (fake_impls, "op_implementations_dict"),
    (fake_impls, "_deregister_op_impl"),
)
_KEPT = "_septran_composites"
"""of torch's module: this file is read anew for each module that is captured, and the kernels outlast that"""


@contextlib.contextmanager
def remembered() -> Iterator[None]:
    """Decompose programs so; torch is as before behind it. A torch without these parts is left as it is."""
    if not all(hasattr(owner, name) for owner, name in _NAMES):
        yield
        return
    override, _, fill = (getattr(owner, name) for owner, name in _NAMES[:3])
    if len(inspect.signature(override).parameters) != 1:
        yield
        return
    made = vars(exported_program).setdefault(_KEPT, {})
    exported_program._override_composite_implicit_decomp = _quick(override, made)
    utils._materialize_cpp_cia_ops = _once(fill)
    try:
        yield
    finally:
        exported_program._override_composite_implicit_decomp = override
        utils._materialize_cpp_cia_ops = fill


def prepare() -> None:
    """Remember the kernels before any program is decomposed."""
    with remembered():
        if _KEPT in vars(exported_program):
            table, _ = exported_program._split_decomp_table_to_cia_and_python_decomp({})
            with exported_program._override_composite_implicit_decomp(table):
                pass


def _once(fill: Callable[[], None]) -> Callable[[], None]:
    """Return `fill`, which finds all composite operators and is called for each of 25 namespaces, as one that does so once."""
    done = False

    def run() -> None:
        nonlocal done
        if not done:
            fill()
            done = True

    return run


def _quick(override: Any, made: dict[Any, tuple[Any, Any, Any]]) -> Any:
    """Return torch's `override` of the operators of a table; made: of an operator, its kernels before and while, and its shapes' rule."""

    @contextlib.contextmanager
    def run(table: dict[Any, Any]) -> Iterator[None]:
        known = {
            one: made[one]
            for one, rule in table.items()
            if rule is utils._special_op_to_preserve_cia
            and one in made
            and made[one][0] == one.py_kernels
        }
        rest = {one: rule for one, rule in table.items() if one not in known}
        rules, before = fake_impls.op_implementations_dict, {}
        for one, rule in rest.items():
            # a rule of torch's own is no part of what the override gives
            if rule is utils._special_op_to_preserve_cia and one not in rules:
                before[one] = dict(one.py_kernels)
        with override(rest):
            made.update((o, (b, dict(o.py_kernels), rules[o])) for o, b in before.items())
            try:
                for one, (_, kernels, rule) in known.items():
                    _replace(one, kernels)
                    rules.setdefault(one, rule)
                yield
            finally:
                for one, (own, _, _) in known.items():
                    _replace(one, own)
                    fake_impls._deregister_op_impl(one)

    return run


def _replace(operator: Any, kernels: dict[Any, Any]) -> None:
    operator.py_kernels.clear()
    operator.py_kernels.update(kernels)
    operator._dispatch_cache.clear()
