"""Verdicts of `septran serve` on a training mix, made twice: by two servers that share nothing, compared bit by bit.

    python benchmarks/serve_verdicts.py --count 10000 --minutes 60 --dir runs/serve

Submission k is made of the library's leaves (on dsa_c of bodies below) by seed k: about 40 % are refused (hostile code, code that does
not compile, replies without code), 30 % are mutants, 30 % are right and differ from each other. Each pass has a server, a ledger
and a SEPTRAN_HOME of its own and writes DIR/first.jsonl or DIR/second.jsonl; the same command goes on after a kill. Passes are filled
block by block, so that there are pairs to compare whenever the time ends. The last line is a septran.verdicts/1 object; exit 1 when
a reward differs.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.verdicts import ask, serving

SEEDS = 4
"""of secret inputs for each task, as a trainer repeats a task"""
KERNELS = (
    ("relu", "cpp", {"N": 315}),
    ("add", "cpp", {"N": 315}),
    ("silu", "cpp", {"N": 315}),
    ("transpose", "cpp", {"M": 33, "N": 18}),
    ("softmax", "cpp", {"M": 9, "N": 130}),
    ("row_sum", "cpp", {"M": 9, "N": 130}),
    ("rmsnorm", "cpp", {"M": 9, "N": 130}),
    ("gemm", "cpp", {"M": 33, "N": 40, "K": 24}),
    ("relu", "cuda_c", {"N": 315}),
    ("transpose", "cuda_c", {"M": 33, "N": 18}),
    ("softmax", "cuda_c", {"M": 9, "N": 130}),
    ("relu", "triton_cuda", {"N": 315}),
    ("softmax", "triton_cuda", {"M": 9, "N": 130}),
    ("relu", "dsa_c", {"N": 315}),
    ("add", "dsa_c", {"N": 315}),
    ("softmax", "dsa_c", {"M": 9, "N": 130}),
)
DSA = {
    "relu": "vendor_lib_vec_scalar(VL_MAX, vl_matrix(Y), vl_matrix(X), 0.0);\n(void)scratch;",
    "add": "vendor_lib_vec_binary(VL_ADD, vl_matrix({0}), vl_matrix({1}), vl_matrix({2}));\n(void)scratch;",
    "softmax": """const vl_tile y = vl_matrix(Y), x = vl_matrix(X);
const vl_tile m = vl_temp(scratch, 0, x.rows, 1), e = vl_temp(scratch, 1024, x.rows, x.cols);
vendor_lib_vec_reduce(VL_RMAX, m, x);
vendor_lib_vec_binary(VL_SUB, e, x, m);
vendor_lib_vec_unary(VL_EXP, e, e);
vendor_lib_vec_reduce(VL_SUM, m, e);
vendor_lib_vec_scalar_r(VL_DIV, m, 1.0, m);
vendor_lib_vec_binary(VL_MUL, y, e, m);""",
}
CHANGES = (
    (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " + "), (r" < ", " <= "), (r"\+=", "-="), (r"\b0\b", "1"), (r"\b1\b", "2"),
    (r"max", "min"), (r"\bMAX\b|MAX,", "MIN,"), (r"_SUM\b", "_PROD"), (r"_EXP\b", "_ABS"), (r"exp", "abs"), (r"== ", "!= "),
)  # fmt: skip
HOSTILE_C = (
    'system("id");', '#include <fstream>\nstd::ofstream("x") << 1;', '__asm__("syscall");', "static float kept[8]; kept[0] += 1;",
    'extern "C" int getpid(); getpid();', "std::thread([]{}).detach();",
)  # fmt: skip
HOSTILE_PY = (
    "import os", "__import__('os').system('id')", "exec('1')", "open('/etc/passwd')",
    "tl.inline_asm_elementwise('', '', [], 1, True, 1)",
)  # fmt: skip
BROKEN_C = ("this_name_is_unknown(1);", "int i = ;", "float x = y_is_not_there[0];", "}")
BROKEN_PY = ("x = not_a_name + 1", "if True", "return 3", "y = (")
PROSE = ("I would use a tiled loop here.", "", "```\n\n```", "Sorry, I cannot do that.")


@dataclass(frozen=True)
class Base:
    """A leaf with a right body."""

    kernel: tuple[str, str, dict[str, int]]
    leaf: str
    body: str
    fence: str

    def sent(self, reply: str, seed: int) -> dict:
        """Return the submission of a reply."""
        op, backend, dims = self.kernel
        return {
            "op": op,
            "backend": backend,
            "dims": dims,
            "leaf": self.leaf,
            "reply": reply,
            "seed": seed,
        }


def bases() -> list[Base]:
    """Return the leaves whose library text a reply could give, and those of dsa_c."""
    from septran.environment.tasks import Asked, leaf_tasks

    found = []
    for kernel in KERNELS:
        op, backend, dims = kernel
        for task in leaf_tasks(Asked(op=op, backend=backend, dims=dims)):
            names = [p.name for p in task.spec.params]
            body = DSA[op].format(*names) if backend == "dsa_c" else task.solution()
            if body:
                fence = "python" if backend.startswith("triton") else "cpp"
                found.append(Base(kernel, task.spec.task, body, fence))
    return found


def submission(base: Base, k: int, rng: random.Random) -> dict:
    """Return submission k of a leaf."""
    python = base.fence == "python"
    kind = rng.random()
    mark = f"variant_{k} = {k}" if python else f"const long variant_{k} = {k}; (void)variant_{k};"
    body = f"{mark}\n{base.body}"
    if kind < 0.15:
        body = f"{mark}\n{rng.choice(HOSTILE_PY if python else HOSTILE_C)}\n{base.body}"
    elif kind < 0.32:
        body = f"{mark}\n{rng.choice(BROKEN_PY if python else BROKEN_C)}\n{base.body}"
    elif kind < 0.40:
        return base.sent(f"{rng.choice(PROSE)} ({k})", k % SEEDS)
    elif kind < 0.70:
        body = f"{mark}\n{mutant(base.body, rng)}"
    return base.sent(f"```{base.fence}\n{body}\n```", k % SEEDS)


def mutant(body: str, rng: random.Random) -> str:
    """Return the body with a line left out or one of `CHANGES` made at one place."""
    lines = body.splitlines()
    drop = [
        i for i, line in enumerate(lines) if line.strip().endswith((";", ")")) and "for" not in line
    ]
    places = [(m.span(), new) for old, new in CHANGES for m in re.finditer(old, body)]
    if drop and (not places or rng.random() < 0.3):
        del lines[rng.choice(drop)]
        return "\n".join(lines)
    if not places:
        return body
    (start, end), new = rng.choice(places)
    return body[:start] + new + body[end:]


class Pass:
    """One server's results, in a file with a line each."""

    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, threading.Lock()
        self.found: dict[int, dict] = {}
        text = path.read_text() if path.is_file() else ""
        for line in text[: text.rfind("\n") + 1].splitlines():
            one = json.loads(line)
            self.found[one["k"]] = one["result"]
        path.write_text(text[: text.rfind("\n") + 1])

    def keep(self, k: int, result: dict) -> None:
        """Write a result down."""
        with self.lock, self.path.open("a") as stream:
            stream.write(json.dumps({"k": k, "result": result}) + "\n")
            self.found[k] = result


def judge(url: str, token: str, sent: dict) -> dict | None:
    """Return the result of a submission; None where the server could not judge it now."""
    while True:
        status, found, wait = ask(url, token, "/v1/submissions", sent)
        if status != 429:
            break
        time.sleep(max(wait, 1))
    if "id" not in found:
        return found
    while True:
        _, state, _ = ask(url, token, f"/v1/submissions/{found['id']}?wait=30")
        if state["state"] in ("done", "unavailable"):
            return state["result"] if state["state"] == "done" else None


def fill(
    one: Pass, server: tuple[str, str], wanted: dict[int, dict], clients: int, until: float
) -> None:
    """Have `clients` threads ask for what a pass lacks."""
    todo = iter([k for k in wanted if k not in one.found])
    lock = threading.Lock()

    def client() -> None:
        while time.time() < until:
            with lock:
                k = next(todo, None)
            if k is None:
                return
            result = judge(*server, wanted[k])
            if result is not None:
                one.keep(k, result)

    threads = [threading.Thread(target=client, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def summary(passes: list[Pass], asked: int, seconds: float) -> dict:
    """Return what both passes have, and which pairs differ."""
    first, second = (one.found for one in passes)
    both = first.keys() & second.keys()
    rungs = Counter(first[k].get("rung", "error") for k in both)
    return {
        "schema": "septran.verdicts/1",
        "asked": asked,
        "verdicts": len(first),
        "compared": len(both),
        "differ": sorted(k for k in both if first[k] != second[k]),
        "rungs": dict(sorted(rungs.items())),
        "seconds": round(seconds, 1),
    }


def main() -> int:
    """Fill both passes and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--block", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--dir", type=Path, default=Path("runs/serve"))
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    args.dir.mkdir(parents=True, exist_ok=True)
    leaves = bases()
    wanted = {}
    for k in range(args.count):
        rng = random.Random(k)
        wanted[k] = submission(rng.choice(leaves), k, rng)
    names = ("first", "second")
    passes = [Pass(args.dir / f"{name}.jsonl") for name in names]
    begun = time.time()
    until = begun + 60 * args.minutes
    with (
        serving(args.dir / "first/ledger", args.workers, home=args.dir / "first/home") as one,
        serving(args.dir / "second/ledger", args.workers, home=args.dir / "second/home") as two,
    ):
        for start in range(0, args.count, args.block):
            block = {k: wanted[k] for k in range(start, min(args.count, start + args.block))}
            for each, server in zip(passes, (one, two), strict=True):
                fill(each, server, block, args.clients, until)
            if time.time() >= until:
                break
            sys.stderr.write(json.dumps(summary(passes, args.count, time.time() - begun)) + "\n")
    found = summary(passes, args.count, time.time() - begun)
    print(json.dumps(found))
    return 1 if found["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
