"""`make llm-local`: a real model writes C++ leaves, every one is judged, and the table of docs/agents.md is printed.

    python -m scripts.llm_local [--model NAME] [--base-url URL] [--seeds 10] [--ops relu,silu,...] [--attempts 3]
    python -m scripts.llm_local --serve        only serve, for `septran eval --config scripts/llm_local/eval.yaml --base-url URL`

Without --base-url it fetches weights and a server into the cache and serves them on loopback. When that is not possible
here it says SKIPPED with the reason and exits 0. Exit 1: an easy leaf came out verified in fewer than 8 of 10 seeds.
What is asserted is mechanics and counts, never a model's text.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from scripts.llm_local.fetch import HERE, MODELS, Unavailable, server, weights
from septran.agent.config import AgentConfig, load, override
from septran.agent.llm import llm_writer
from septran.agent.writer import Budget, Judge, Written
from septran.assets import home
from septran.kernel import LeafSpec
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.judge import distinct_specs
from septran.trial.leaf_judge import LeafJudge
from septran.trial.place import place_of

EASY = ("relu", "add", "mul", "silu", "tanh")
HARD = ("softmax", "layernorm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The figures of one leaf over all seeds."""

    leaf: str
    seeds: int
    first: int
    any: int
    calls: int
    tokens: int
    seconds: float

    def text(self, model: str) -> str:
        """Return the Markdown row."""
        return (
            f"| {model} | {self.leaf} | {self.first}/{self.seeds} | {self.any}/{self.seeds} "
            f"| {self.calls} | {self.tokens} | {self.seconds:.0f} |"
        )


def configured(url: str, model: str, seed: int, frame: str) -> AgentConfig:
    """Return the agent's configuration for a small model: a hole in generated loops, no documentation."""
    steps = [
        {"when": "verified", "stop": "verified"},
        {"when": "start", "ask": ["coder"], "mode": "first"},
        {"when": "cut", "ask": ["coder"], "mode": "shorter"},
        {"when": "repeated", "ask": ["coder"], "mode": "redesign", "temperature": 1.0},
        {"when": "failed", "ask": ["coder"], "mode": "repair"},
    ]
    small = {
        "base_url": url,
        "model": model,
        "frame": frame,
        "accept": "verified",
        "on_unreachable": "library",
        "context": {"docs": "none" if frame == "loops" else "api", "max_model_len": 4096},
        "request": {"seed": 1000 * seed, "max_tokens": 400 if frame == "loops" else 1200},
        "client": {"read_timeout_s": 300.0, "deadline_s": 600.0},
        "workflow": steps,
    }
    return load("cpp", over=[override("llm-local", small)])


def measure(op: str, frame: str, options: argparse.Namespace, work: Path) -> Row:
    """Return the figures of an operator's first leaf."""
    plan = resolve(GenRequest(op=op, backend="cpp"))
    program = lower_plan(plan).program
    spec = distinct_specs(program)[0]
    floor = {}
    for each in distinct_specs(program):
        leaf = plan.backend.library(each)
        assert leaf is not None
        floor[each.key] = leaf
    problem = problem_of(plan, program, plan.dims)
    place = place_of(plan.backend, plan.arch, "auto", 1)
    first = good = calls = tokens = 0
    start = time.monotonic()
    for seed in range(options.seeds):
        judge = LeafJudge(place, program, problem, floor, work=work / f"{op}{seed}")
        written = one(spec, judge, configured(options.base_url, options.model, seed, frame), work / f"{op}{seed}-record", plan.backend, options.attempts)  # fmt: skip
        first += bool(written.history and written.history[0].verdict.verified)
        good += written.leaf.writer == "llm"
        calls += written.usage.calls
        tokens += written.usage.tokens
        marks = "".join("+" if a.verdict.verified else "." for a in written.history)
        sys.stderr.write(f"{op} seed {seed}: {marks} {written.leaf.writer} ({written.reason})\n")
    seconds = time.monotonic() - start
    return Row(leaf=f"{op} ({frame})", seeds=options.seeds, first=first, any=good, calls=calls, tokens=tokens, seconds=seconds)  # fmt: skip


def one(
    spec: LeafSpec, judge: Judge, config: AgentConfig, folder: Path, backend: object, attempts: int
) -> Written:
    """Return the outcome of one search."""
    writer = llm_writer(backend, config, folder)  # type: ignore[arg-type]
    return writer.write(spec, judge, Budget(attempts=attempts))


def serve(model: str, cache: Path, context: int) -> tuple[subprocess.Popen[bytes], str]:
    """Start the server; return it and its address. Raises Unavailable."""
    path, package = weights(model, cache), server(cache)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    quiet = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "PYTHONPATH": str(package)}
    threads = str(max(1, (os.cpu_count() or 2)))
    with (cache / "server.log").open("wb") as log:
        child = subprocess.Popen(
            [
                sys.executable,
                str(HERE / "serve.py"),
                str(path),
                str(port),
                threads,
                model,
                str(context),
            ],
            env={**os.environ, **quiet},
            stdout=log,
            stderr=log,
        )
    url = f"http://127.0.0.1:{port}/v1"
    for _ in range(240):
        if child.poll() is not None:
            raise Unavailable(
                f"the server ended with code {child.returncode}; see {cache}/server.log"
            )
        try:
            urllib.request.urlopen(f"{url}/models", timeout=2).read()
            return child, url
        except OSError:
            time.sleep(0.5)
    child.terminate()
    raise Unavailable("the server did not answer within two minutes")


def _until_stopped(child: subprocess.Popen[bytes], url: str) -> int:
    """Print the address, wait for Ctrl-C or the server's end; return the exit code."""
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()
    try:
        return child.wait()
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        return 0


def main() -> int:
    """Run the table; return the exit code."""
    parser = argparse.ArgumentParser(description="a real local model writes C++ leaves")
    parser.add_argument("--model", default="qwen2.5-coder-1.5b")
    parser.add_argument("--base-url", default="", help="use a running endpoint instead")
    parser.add_argument("--serve", action="store_true", help="serve until Ctrl-C, measure nothing")
    parser.add_argument("--context", type=int, default=0, help="tokens; 4096, with --serve 8192")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--attempts", type=int, default=3)
    parser.add_argument("--ops", default=",".join((*EASY, *HARD)))
    parser.add_argument("--cache", type=Path, default=home() / "cache" / "llm-local")
    options = parser.parse_args()
    child = None
    if not options.base_url:
        if options.model not in MODELS:
            parser.error(f"--model is one of {', '.join(MODELS)}, or give --base-url")
        try:
            context = options.context or (8192 if options.serve else 4096)
            child, options.base_url = serve(options.model, options.cache, context)
        except Unavailable as e:
            sys.stderr.write(f"\n*** llm-local SKIPPED: {e} ***\n\n")
            return 0
    if options.serve and child is not None:
        return _until_stopped(child, options.base_url)
    sys.stdout.write("| model | leaf | pass@1 | pass@k | calls | tokens | seconds |\n")
    sys.stdout.write("|---|---|---|---|---|---|---|\n")
    rows: list[tuple[str, Row]] = []
    try:
        with tempfile.TemporaryDirectory() as work:
            for op in options.ops.split(","):
                frame = "body" if op in HARD else "loops"
                rows.append((op, measure(op, frame, options, Path(work))))
                sys.stdout.write(rows[-1][1].text(options.model) + "\n")
                sys.stdout.flush()
    finally:
        if child is not None:
            child.terminate()
            child.wait()
    weak = [op for op, row in rows if op in EASY and row.any * 10 < row.seeds * 8]
    if weak:
        sys.stderr.write(f"fewer than 8 of 10 seeds came out verified: {', '.join(weak)}\n")
    return 1 if weak else 0


if __name__ == "__main__":
    sys.exit(main())
