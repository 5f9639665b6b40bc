"""CodeGenDSA as a TVM build function, so that TVM users reach it through TVM's own door."""

from __future__ import annotations

from typing import Any

from septran.backends.dsa.codegen import CodeGenDSA
from septran.backends.dsa.vendor import load_vendor

BUILD_FUNCTION = "target.build.ext_dev"
"""TVM looks this name up when it builds for `Target("ext_dev")`, its kind for external devices."""


def register(vendor: str = "vendor_lib") -> None:
    """Make TVM's `Target("ext_dev")` translate PrimFuncs of dsa.* calls to C over `vendor`.

    The PrimFuncs are those of `septran.backends.dsa.tir.to_prim_func` for a placed and ordered Program.
    """
    from tilelang import tvm

    def build(mod: Any, target: Any) -> Any:
        texts, names = [], []
        for var, func in mod.functions.items():
            name = str(var.name_hint)
            names.append(f"{name}_entry")
            texts.append(CodeGenDSA(load_vendor(vendor)).function(func, names[-1]))
        create = tvm.get_global_func("runtime.CSourceModuleCreate")
        return create("\n".join(texts), "c", names, [])

    tvm.register_global_func(BUILD_FUNCTION, build, override=True)
