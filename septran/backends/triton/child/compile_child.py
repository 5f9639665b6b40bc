"""Compiles a kernel file for one GPU, without the GPU. Runs in the sandboxed child only.

argv: folder with kernel.py, backend ("cuda" or "hip"), arch ("90" or "gfx942"), threads of a warp, output JSON path.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("kernel", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _nvidia(asm: dict[str, Any]) -> dict[str, int]:
    sys.path.append(str(Path(__file__).parent))
    from resources import usage

    ptx = asm["ptx"]
    facts = {
        "wgmma": ptx.count("wgmma.mma_async"),
        "tcgen05": ptx.count("tcgen05.mma"),
        "mma": ptx.count("mma.sync"),
        "cp_async": ptx.count("cp.async.c"),
        "tma": ptx.count("cp.async.bulk.tensor"),
    }
    facts |= usage(asm["cubin"])
    # without arrays of the program's own, all that is on the stack was spilled
    if ".local" not in ptx:
        facts["spill_bytes"] = max(facts.get("spill_bytes", 0), facts.get("stack", 0))
    if "registers" not in facts:
        facts["spill_bytes"] = len(re.findall(r"(?:ld|st)\.local", ptx))
    return facts


def _amd(asm: dict[str, Any]) -> dict[str, int]:
    text = asm["amdgcn"]
    facts = {"mfma": text.count("v_mfma"), "wmma": text.count("v_wmma")}
    for key, name in (
        ("vgpr_count", "registers"),
        ("vgpr_spill_count", "spilled_registers"),
        ("private_segment_fixed_size", "spill_bytes"),
    ):
        match = re.search(rf"\.{key}:\s*(\d+)", text)
        if match:
            facts[name] = int(match.group(1))
    return facts


def main() -> int:
    """Compile every launch; write {"ok", "facts", "log"} to the output file."""
    folder, backend, arch, warp, out = sys.argv[1:6]
    warnings.simplefilter("ignore")
    result: dict[str, Any] = {"ok": True, "facts": {}, "log": ""}
    try:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        module = _load(Path(folder) / "kernel.py")
        target = GPUTarget(backend, int(arch) if arch.isdigit() else arch, int(warp))
        for kernel, signature, options in module.LAUNCHES:
            attrs = {
                (i,): [["tt.divisibility", 16]]
                for i, kind in enumerate(signature.values())
                if kind.startswith("*")
            }
            source = ASTSource(fn=kernel, signature=signature, constexprs={}, attrs=attrs)
            built = triton.compile(source, target=target, options=dict(options))
            found = _amd(built.asm) if backend == "hip" else _nvidia(built.asm)
            found["shared"] = int(built.metadata.shared)
            for key, value in found.items():
                result["facts"][key] = max(value, result["facts"].get(key, 0))
    except Exception as e:  # any compiler failure is a result, not a crash
        text = f"{type(e).__name__}: {e}"
        cause = e.__cause__
        if cause is not None:
            text += f"\ncaused by {type(cause).__name__}: {cause}"
        result.update(ok=False, log=text)
    Path(out).write_text(json.dumps(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
