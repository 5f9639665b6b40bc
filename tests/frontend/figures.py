"""Figures of the importer over our own module files: `python -m tests.frontend.figures` prints them for docs/import.md.

For each file: processor seconds from reading it to the written logic (torch is loaded, the file runs in this process), how many
kernels it becomes, and what happened to those that become none.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from septran.errors import SeptranError
from tests.frontend.families import FAMILIES
from tests.frontend.fused import FUSED
from tests.frontend.importing import imported
from tests.frontend.modules import MODULES
from tests.frontend.test_tasks import FILES, TASKS


def main() -> None:
    """Print a row for each folder of files."""
    seconds: dict[str, list[float]] = defaultdict(list)
    kernels: dict[str, list[int]] = defaultdict(list)
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        todo = [(f.split("/")[0], TASKS / f"{f}.py") for f in FILES]
        for group, modules in (("small modules", (*MODULES, *FAMILIES)), ("fused chains", FUSED)):
            for one in modules:
                path = folder / f"{one.name}_small.py"
                path.write_text(one.text())
                todo.append((group, path))
        for group, source in todo:
            path = folder / "one" / source.name
            path.parent.mkdir(exist_ok=True)
            shutil.copy(source, path)
            start = time.process_time()
            try:
                found = imported(path)
            except SeptranError as e:
                failed.append(f"{group}/{source.stem}: {e.codes}")
                continue
            except Exception as e:
                failed.append(f"{group}/{source.stem}: internal, {type(e).__name__}: {e}")
                continue
            seconds[group].append(time.process_time() - start)
            kernels[group].append(found.written.kernels)
    print("| files | how many | kernels: median, worst | seconds of a processor: median, worst |")
    print("|---|---|---|---|")
    for group in kernels:
        k, s = kernels[group], seconds[group]
        print(
            f"| {group} | {len(k)} | {statistics.median(k):g}, {max(k)} | {statistics.median(s):.2f}, {max(s):.2f} |"
        )
    every = [s for group in seconds.values() for s in group]
    print(f"\n{len(every)} imported, median {statistics.median(every):.2f} s; {len(failed)} not")
    print("\n".join(failed))


if __name__ == "__main__":
    main()
