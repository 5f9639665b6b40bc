"""A race that the emulation's orders of threads show is told with the lines of its two accesses where the text can be read."""

from __future__ import annotations

from tests.judge.test_tutorials import judged

TURNED = """__global__ void turned(const float* x, float* y) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];

  y[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x];
}
void turn(const float* x, float* y, int n) { turned<<<n / 64, 64>>>(x, y); }
"""
WANTED = "import torch\ndef reference(x): return x.reshape(-1, 64).flip(1).reshape(-1)\ndef get_inputs(): return [torch.randn(128)]\n"


def test_a_race_that_orders_of_threads_show_has_its_two_lines(tmp_path, capsys):
    assert judged(tmp_path, TURNED, WANTED, "turn.cu") == 1
    said = capsys.readouterr().out
    assert "[P130] turned: thread " in said
    assert "of tile in line 3" in said and "in line 5" in said
    assert "between threads run forward and" in said, "how it was seen stays in the hint"
