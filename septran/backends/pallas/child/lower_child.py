"""Lowers a Pallas kernel for a TPU without a TPU, and reads its products. Runs in the sandboxed child only.

argv: the kernel's file, a JSON file with [name, shape, dtype] of its tensors, the output JSON file.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("kernel", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _equations(jaxpr: Any) -> Iterator[Any]:
    """Yield every equation of a jaxpr and of those inside its equations."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from _equations(inner)


def _products(jaxpr: Any) -> tuple[int, list[str]]:
    """Return how many products there are, and what is wrong with those that would round float32 operands."""
    found, wrong = 0, []
    for equation in _equations(jaxpr):
        if equation.primitive.name != "dot_general":
            continue
        found += 1
        if not any(str(v.aval.dtype) == "float32" for v in equation.invars):
            continue
        precision = equation.params["precision"]
        parts = precision if isinstance(precision, tuple) else (precision,)
        if not all(getattr(part, "name", str(part)) == "HIGHEST" for part in parts):
            wrong.append(
                f"a float32 product has precision {precision}: a TPU would round its operands to "
                "bfloat16; write precision=lax.Precision.HIGHEST"
            )
    return found, wrong


def main() -> int:
    """Trace and lower `entry`; write {"ok", "facts", "log"} to the output file."""
    source, params, out = sys.argv[1:4]
    sys.path.append(os.environ["SEPTRAN_PACKAGES"])
    result: dict[str, Any] = {"ok": True, "facts": {}, "log": ""}
    try:
        import jax
        from jax import export

        module = _load(Path(source))
        tensors = json.loads(Path(params).read_text(encoding="utf-8"))
        shapes = [jax.ShapeDtypeStruct(tuple(shape), dtype) for _, shape, dtype in tensors]
        arguments = [shapes[i] for i in module.TAKES]
        products, wrong = _products(jax.make_jaxpr(module.entry)(*arguments).jaxpr)
        lowered = export.export(jax.jit(module.entry), platforms=["tpu"])(*arguments)
        text = lowered.mlir_module()
        result["facts"] = {"products": products, "kernels": text.count("tpu_custom_call")}
        if wrong:
            result.update(ok=False, log="\n".join(dict.fromkeys(wrong)))
    except Exception as e:  # any compiler failure is a result, not a crash
        result.update(ok=False, log=f"{type(e).__name__}: {e}")
    Path(out).write_text(json.dumps(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
