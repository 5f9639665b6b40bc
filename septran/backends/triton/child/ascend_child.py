"""Takes a Triton kernel file through Triton-Ascend and BiShengIR, without an NPU or CANN. Runs in the sandboxed child only.

argv: kernel file, chip ("Ascend910B2"), output JSON path. SEPTRAN_PACKAGES: the folder with triton-ascend.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

PACKAGES = Path(os.environ["SEPTRAN_PACKAGES"])
_PIPELINE = ("auto-multi-buffer", "hfusion-compile", "hivm-compile", "triton-kernel-compile")


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("kernel", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _linalg(fn: Any, signature: dict[str, str], chip: str) -> str:
    """Return the linalg text of one kernel."""
    from triton._C.libtriton import ir
    from triton.backends.ascend import compiler as ascend
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource

    backend = ascend.AscendBackend(GPUTarget("npu", chip, 0))
    options = backend.parse_options({})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = ASTSource(fn, signature=signature, constants={})
    module = source.make_ir(options, {"min_dot_size": ascend.min_dot_size(None)}, {}, context)
    module = ascend.make_ttir(module, {"hash": "0"}, options)
    flags = {
        "enable_nd2nz_on_vector": False,
        "enable_select_analysis": True,
        "compile_on_910_95": False,
        "force_simt_template": False,
        "hash": "0",
    }
    return str(ascend.ttir_to_linalg(module, flags, options, named_ops=True))


def _refusal(text: str, chip: str) -> str:
    """Return BiShengIR's words where it refuses the kernel, "" where all but hivmc ran."""
    Path("kernel.mlir").write_text(text, encoding="utf-8")
    tool = PACKAGES / "ascendnpuir" / "bin" / "bishengir-compile"
    switches = [f"--enable-{name}=true" for name in _PIPELINE]
    done = subprocess.run(
        [str(tool), "kernel.mlir", f"--target={chip}", *switches, "-o", "kernel.o"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode == 0 or any("External hivmc run fails" in line for line in lines):
        return ""
    told = [line for line in lines if "hivmc" not in line]
    return "\n".join(told)[:4000] or f"bishengir-compile ended with {done.returncode}"


def main() -> int:
    """Compile every launch; write {"ok", "facts", "log"} to the output file."""
    path, chip, out = sys.argv[1:4]
    sys.path.insert(0, str(PACKAGES))  # its triton stands before the one of other targets
    units = dict.fromkeys(("aiv", "aic", "mix"), 0)
    result: dict[str, Any] = {"ok": True, "facts": units, "log": ""}
    try:
        for kernel, signature, _ in _load(Path(path)).LAUNCHES:
            text = _linalg(kernel, signature, chip)
            found = re.search(r'mix_mode = "(\w+)"', text)
            if found and found[1] in units:
                units[found[1]] += 1
            refused = _refusal(text, chip)
            if refused:
                result.update(ok=False, log=f"BiShengIR refuses {kernel.__name__}: {refused}")
                break
    except Exception as e:  # any compiler failure is a result, not a crash
        said = getattr(e, "stderr", None) or b""
        words = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        result.update(ok=False, log=f"{type(e).__name__}: {words[-3000:] or e}")
    Path(out).write_text(json.dumps(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
