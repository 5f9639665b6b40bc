"""Lowers a Pallas kernel for a TPU without a TPU, and reads its products. Runs in the sandboxed child only.

argv: the kernel's file, a JSON file with [name, shape, dtype] of its tensors, the output JSON file, and, where libtpu
compiles, the topology of one chip ("v5e:2x2"), with the folder to which LIBTPU_INIT_ARGS has it write its schedules.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
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


def _compile(entry: Any, arguments: list[Any], topology: str, schedules: Path) -> dict[str, int]:
    """Compile `entry` to machine code of one chip; return what its schedule says.

    bundles: instruction words of the kernels; spill_bundles: those that store or load a spill; around_bundles: words of
    what XLA puts around the kernels (reshapes of vectors, padding).
    """
    import jax
    from jax.experimental import topologies

    device = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices[0]
    place = jax.sharding.SingleDeviceSharding(device)
    traced = jax.jit(entry, in_shardings=place, out_shardings=place).trace(*arguments)
    traced.lower(lowering_platforms=("tpu",)).compile()
    bundles = spills = around = 0
    for path in schedules.glob("*final_hlo-static-per-bundle-utilization.txt"):
        _, _, name = path.name.partition("-")
        if name.startswith(("TLP", "<")):  # the program around all kernels
            continue
        head, _, body = path.read_text(encoding="utf-8").partition("== UTILIZATION:\n")
        units = [unit.strip() for unit in head.splitlines()[1].split(",")]
        rows = [line.split() for line in body.splitlines() if re.fullmatch(r"[\d ]+", line)]
        if not name.startswith(f"{entry.__name__}."):
            around += len(rows)
            continue
        bundles += len(rows)
        for row in rows:
            used = [unit for unit, count in zip(units, row, strict=True) if count != "0"]
            spills += any(unit.endswith((":SPILL", ":FILL")) for unit in used)
    # the flags that ask for the schedules are not documented: without files there is no figure
    if not bundles:
        return {}
    return {"bundles": bundles, "spill_bundles": spills, "around_bundles": around}


def main() -> int:
    """Trace and lower `entry`; write {"ok", "facts", "log"} to the output file."""
    source, params, out, *compiled = sys.argv[1:]
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
        if compiled and not wrong:
            topology, schedules = compiled
            result["facts"] |= _compile(module.entry, arguments, topology, Path(schedules))
        if wrong:
            result.update(ok=False, log="\n".join(dict.fromkeys(wrong)))
    except Exception as e:  # any compiler failure is a result, not a crash
        result.update(ok=False, log=f"{type(e).__name__}: {e}")
    Path(out).write_text(json.dumps(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
