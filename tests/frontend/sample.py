"""How a sample of our module files comes out on targets other than `cpp`, emulated: `python -m tests.frontend.sample`.

The sample: all single operators and chains in the order of their names, but every fourth. Each file is imported, built and
judged as `septran gen --task` does it, at the sizes it has. What was found stays in a file, so that the command goes on where it
stopped; without that file everything is run again.

    python -m tests.frontend.sample --results /tmp/sample.json [--targets dsa_c,cuda_c] [--seconds 400] [--simulated]

--simulated: kernels of TileLang targets are judged in the simulator and not compiled besides, which takes most of the time.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from septran.backends.base import Built
from septran.backends.device.simulated import write_simulated
from septran.errors import SeptranError
from septran.kernel import Kernel
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.torch_module import Imported, load_imported
from septran.trial.judge import judge_kernel
from septran.trial.place import place_of
from tests.frontend.importing import imported
from tests.frontend.planning import planned
from tests.frontend.test_tasks import FILES, TASKS

TARGETS = ("cuda_c", "triton_cuda", "tilelang_cuda", "dsa_c", "tilelang_npuir")
SAMPLE = tuple(
    f for k, f in enumerate(f for f in FILES if f.startswith(("level1/", "level2/"))) if k % 4 != 3
)


def _uncompiled(kernel: Kernel, folder: Path) -> Built:
    return Built(ok=True, artifact=write_simulated(kernel, folder), not_checked=("compile",))


def outcome(found: Imported, target: str, work: Path, *, simulated: bool = False) -> str:
    """Return "accurate", the code of a refusal with its first line, or what is wrong."""
    try:
        plan, lowered = planned(load_imported(found), target)
        backend = plan.backend
        if simulated and target.startswith("tilelang"):
            backend = replace(backend, build=_uncompiled)
        kernel = backend.emit(
            lowered.program, library_leaves(backend, lowered.program, lowered.bound.mapping)
        )
        judged = judge_kernel(
            place_of(backend, plan.arch, "emulated", 1),
            kernel,
            problem_of(plan, lowered.program, {}),
            work=work,
        )
    except SeptranError as e:
        first = e.diagnostics[0]
        return f"{first.code}: {first.message}"
    except Exception as e:
        return f"internal: {type(e).__name__}: {e}"[:300]
    verdict = judged.verdict
    return "accurate" if verdict.passed else f"{verdict.level}: {verdict.message}"[:300]


def main() -> None:
    """Run what is not in the results yet, then print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", type=Path, default=Path("sample.json"))
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    asked = parser.parse_args()
    known: dict[str, str] = json.loads(asked.results.read_text()) if asked.results.exists() else {}
    started = time.monotonic()
    for name in SAMPLE:
        todo = [t for t in asked.targets.split(",") if f"{t} {name}" not in known]
        if not todo or time.monotonic() - started > asked.seconds:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{Path(name).name}.py"
            shutil.copy(TASKS / f"{name}.py", path)
            found = imported(path)
            for target in todo:
                known[f"{target} {name}"] = outcome(
                    found, target, Path(folder) / target, simulated=asked.simulated
                )
                asked.results.write_text(json.dumps(known, indent=1, sort_keys=True))
    print("| target | files | accurate | refused, by code | wrong |\n|---|---|---|---|---|")
    for target in asked.targets.split(","):
        rows = [known[k] for n in SAMPLE if (k := f"{target} {n}") in known]
        words = Counter(r.split(":")[0] for r in rows)
        good = words.pop("accurate", 0)
        refused = {c: n for c, n in sorted(words.items()) if c[:1] in "CLMV" and c[1:].isdigit()}
        rest = {c: n for c, n in sorted(words.items()) if c not in refused}
        shown = [", ".join(f"{c} {n}" for c, n in of.items()) or "-" for of in (refused, rest)]
        print(f"| `{target}` | {len(rows)} | {good} | {shown[0]} | {shown[1]} |")
    for key, what in sorted(known.items()):
        if what != "accurate":
            print(f"{key}: {what}")


if __name__ == "__main__":
    main()
