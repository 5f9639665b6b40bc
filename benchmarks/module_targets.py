"""Torch modules on several targets, emulated: `python -m benchmarks.module_targets --results FILE.json`.

Each of the files of tests/frontend/tasks named in FILES is imported, built and judged as `septran gen --task` does it, in a
process of its own with a time limit. FILE.json keeps what was found, so that the command goes on where it stopped; `--again
wrong,internal` runs cells with these outcomes once more. Kernels of TileLang targets are judged in the simulator and not compiled
besides (`--compiled`: they are), which takes most of the time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from septran import backends
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
from tests.frontend.test_tasks import TASKS

TARGETS = ("tilelang_npuir", "dsa_c", "tilelang_cuda", "cuda_c", "triton_cuda")
FILES = (
    *(f"level1/{n}" for n in (
        "argmin_over_dim", "attention_dot_product", "attention_half", "avg_pool3d", "batch_norm", "batched_matmul",
        "conv1d_dilated", "conv2d_asymmetric", "conv_transpose2d_everything", "cosine_loss", "cross_entropy", "cumprod",
        "cumsum_exclusive", "depthwise_separable", "far_from_core", "group_norm", "huber", "kl_div", "l2_norm", "layer_norm",
        "masked_cumsum", "matmul_diagonal", "matmul_irregular_transposed_both", "matvec", "max_pool3d", "new_gelu",
        "prod_over_dim", "small_and_stepped", "triplet_margin",
    )),
    *(f"level2/{n}" for n in (
        "bmm_instancenorm_residual", "conv3d_softmax_pools", "conv_activation_bn", "conv_norm_tanh_hardswish_lse",
        "conv_relu_bias", "conv_sub_hardswish_pool_mish", "deconv3d_logsumexp_hardswish", "deconv_bias_clamp_scale",
        "gemm_bn_bias_divide_swish", "gemm_groupnorm_min_bias", "gemm_maxpool_sum_scale", "gemm_sigmoid_sum_lse_all",
        "gemm_sub_gap_lse_gelu_residual", "resampled",
    )),
    *(f"level3/{n}" for n in (
        "convvit", "efficientnet_mbconv", "gru_bidirectional", "lenet", "mamba2", "mingpt_attention", "patch_merging",
        "resnet_small", "shufflenet_unit", "swin_mlp",
    )),
    *(f"serving/{n}" for n in (
        "add_rms_norm", "embedding_position", "gqa_decode", "half_mlp", "rotary_neox", "selective_scan", "topk_softmax_gating",
    )),
)  # fmt: skip
KINDS = ("accurate", "unavailable", "out of time", "wrong", "internal")


def outcome(found: Imported, target: str, work: Path, *, compiled: bool = False) -> tuple[str, str]:
    """Return the kind of what comes out of an import on a target, and the reason."""
    try:
        plan, lowered = planned(load_imported(found), target)
        backend = plan.backend
        if target.startswith("tilelang") and not compiled:
            backend = replace(backend, build=_uncompiled)
        leaves = library_leaves(backend, lowered.program, lowered.bound.mapping)
        kernel = backend.emit(lowered.program, leaves)
        problem = problem_of(plan, lowered.program, {})
        place = place_of(backend, plan.arch, "emulated", 1)
        verdict = judge_kernel(place, kernel, problem, work=work / "judged").verdict
    except SeptranError as e:
        first = e.diagnostics[0]
        return "unavailable", f"{first.code} {first.message}"[:400]
    except Exception as e:
        return "internal", f"{type(e).__name__}: {e}"[:400]
    if verdict.passed:
        return "accurate", ""
    if verdict.status == "TIMEOUT" or "timeout limit" in verdict.message:
        return "out of time", verdict.message
    return "wrong", f"{verdict.level} {verdict.status}: {verdict.message}"[:400]


def _uncompiled(kernel: Kernel, folder: Path) -> Built:
    return Built(ok=True, artifact=write_simulated(kernel, folder), not_checked=("compile",))


def _in_child(answer: Connection, name: str, target: str, work: Path, compiled: bool) -> None:
    os.setsid()
    with (work / "log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    path = work / f"{Path(name).name}.py"
    shutil.copy(TASKS / f"{name}.py", path)
    answer.send(outcome(imported(path), target, work, compiled=compiled))


def run(todo: list[tuple[str, str]], known: dict[str, dict], results: Path, asked) -> None:
    """Run cells, `asked.jobs` at a time, and keep each result when it is there."""
    fork = multiprocessing.get_context("fork")
    busy: dict[str, tuple] = {}
    began = time.monotonic()
    while busy or todo:
        while todo and len(busy) < asked.jobs and time.monotonic() - began < asked.seconds:
            name, target = todo.pop(0)
            folder = tempfile.TemporaryDirectory()
            ours, theirs = fork.Pipe(duplex=False)
            args = (theirs, name, target, Path(folder.name), asked.compiled)
            child = fork.Process(target=_in_child, args=args)
            child.start()
            theirs.close()
            busy[f"{target} {name}"] = (child, ours, folder, time.monotonic())
        if not busy:
            return
        time.sleep(0.2)
        for key, (child, ours, folder, start) in list(busy.items()):
            took = time.monotonic() - start
            if ours.poll():
                try:
                    kind, why = ours.recv()
                except EOFError:
                    kind, why = "internal", "the process ended without an answer"
            elif took > asked.limit:
                kind, why = "out of time", f"{asked.limit:g} s"
            else:
                continue
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.join()
            folder.cleanup()
            del busy[key]
            known[key] = {"kind": kind, "why": why, "seconds": round(took, 1)}
            results.write_text(json.dumps(known, indent=1, sort_keys=True))
            print(f"{key}: {kind} {why} ({took:.0f} s)", flush=True)


def table(known: dict[str, dict], targets: list[str], files: list[str]) -> str:
    """Return the table of kinds and the list of everything that is not accurate."""
    lines = ["| target | files | " + " | ".join(KINDS) + " | accurate, % |", "|---" * 8 + "|"]
    rest = []
    for target in targets:
        rows = [(n, known[k]) for n in files if (k := f"{target} {n}") in known]
        count = Counter(r["kind"] for _, r in rows)
        share = f"{100 * count['accurate'] / len(rows):.0f}" if rows else "-"
        cells = " | ".join(str(count[k]) for k in KINDS)
        lines.append(f"| `{target}` | {len(rows)} | {cells} | {share} |")
        rest += [
            f"{target} {n}: {r['kind']} {r['why']} ({r['seconds']:.0f} s)"
            for n, r in rows
            if r["kind"] != "accurate"
        ]
    return "\n".join([*lines, "", *rest])


def main() -> None:
    """Run what is not in the results yet, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--files", default="", help="only files whose name contains one of these")
    parser.add_argument("--again", default="", help="kinds of outcomes that are run once more")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a cell")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no cell later")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--compiled", action="store_true")
    asked = parser.parse_args()
    targets = asked.targets.split(",")
    files = [f for f in FILES if any(p in f for p in asked.files.split(","))]
    for target in targets:
        backends.get(target)  # imported before the forks: edits do not change a run that goes on
    known = json.loads(asked.results.read_text()) if asked.results.exists() else {}
    again = [k for k in asked.again.split(",") if k]
    todo = [
        (n, t) for t in targets for n in files
        if (k := f"{t} {n}") not in known or known[k]["kind"] in again
    ]  # fmt: skip
    run(todo, known, asked.results, asked)
    print(table(known, targets, files))


if __name__ == "__main__":
    main()
