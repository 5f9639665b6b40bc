"""A file that starts threads of its own cannot be judged, and is told where it does."""

from __future__ import annotations

from septran.cli.main import main

FILE = """#include <thread>
// std::thread is what this file is about
extern "C" void twice(const float* x, float* y, int n) {
    auto part = [=](int from, int to) {
        for (int i = from; i < to; ++i) y[i] = 2 * x[i];
    };
    std::thread other(part, 0, n / 2);
    part(n / 2, n);
    other.join();
}
"""
REFERENCE = (
    "import torch\ndef reference(x): return 2 * x\ndef get_inputs(): return [torch.randn(37)]\n"
)


def test_the_line_that_starts_a_thread_is_named(tmp_path, capsys):
    file, wanted = tmp_path / "twice.cpp", tmp_path / "wanted.py"
    file.write_text(FILE)
    wanted.write_text(REFERENCE)
    assert main(["judge", str(file), "--reference", str(wanted)]) == 3
    told = capsys.readouterr().out
    assert "[V217]" in told and "it starts threads of its own, line 7 (`std::thread`)" in told
