"""Serve one GGUF model on loopback: serve.py MODEL PORT THREADS NAME CONTEXT. Runs until it is killed."""

from __future__ import annotations

import signal
import sys

import xllamacpp  # type: ignore[import-not-found]


def main() -> None:
    """Start llama.cpp's own HTTP server and wait."""
    model, port, threads, name = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = int(sys.argv[5])
    params.n_parallel = 1
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.cpuparams.n_threads = threads
    params.cpuparams.poll = 0
    params.cpuparams_batch.n_threads = threads
    params.model_alias = {name}
    server = xllamacpp.Server(params)
    sys.stderr.write(f"serving {name} on port {port}\n")
    signal.pause()
    del server


main()
