"""What a leaf reads ends where its tensor ends: memory behind it may not be there."""

import ctypes
import mmap
import os

import numpy as np

from septran.backends.cpp.emit import runtime_folder
from tests.support.shared import compile_shared

STRIDED_COPY = """
extern "C" __attribute__((visibility("default"))) void run(const float* x, float* y) {
    using namespace st;
    using F = f32v;
    constexpr long L = lanes<F>, n = 72;
    long j = 0;
    for (; j + L <= n; j += L) scatter(y + j * 3, 3, load<F>(x + j), L);
    for (; j < n; j += L) scatter(y + j * 3, 3, load_n<F>(x + j, n - j), n - j);
}
"""


def test_a_tail_of_known_length_is_not_read_whole(tmp_path):
    text = "".join((runtime_folder() / f"{n}.h").read_text() for n in ("view", "vec"))
    built = compile_shared(text + STRIDED_COPY, tmp_path)
    assert built.ok, built.log
    page = mmap.PAGESIZE
    held = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(held))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page), page, 0) == 0
    x = np.frombuffer(held, np.float32, 72, page - 72 * 4)
    y = np.zeros(72 * 3, np.float32)
    run = ctypes.CDLL(str(built.artifact)).run
    given = ctypes.c_void_p(start + page - 72 * 4), y.ctypes.data_as(ctypes.c_void_p)
    child = os.fork()  # a read behind x ends it
    if child == 0:
        run(*given)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    run(*given)
    assert np.array_equal(y[::3], x)
