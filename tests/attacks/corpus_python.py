"""Attacks that a Python DSL leaf can carry, and honest controls: entry(C, A, B), C[5,4] = A[5,6] B[6,4]."""

from __future__ import annotations

from tests.attacks.attack import Attack

HONEST = """
def entry(C, A, B):
    for i in range(5):
        for j in range(4):
            s = 0.0
            for k in range(6):
                s = s + A[i, k] * B[k, j]
            C[i, j] = s
"""


def py(
    name: str, what: str, text: str, *, honest: bool = False, static_only: bool = False
) -> Attack:
    return Attack(name, what, text, language="python", honest=honest, static_only=static_only)


def with_line(line: str) -> str:
    """Return the honest kernel with a line at the top of its body."""
    return HONEST.replace("def entry(C, A, B):\n", f"def entry(C, A, B):\n    {line}\n")


ATTACKS = (
    py(
        "P01",
        "calls the library",
        "import numpy as np\ndef entry(C, A, B):\n    C[:] = np.matmul(A, B)\n",
        static_only=True,
    ),
    py("P02", "uses @", "def entry(C, A, B):\n    C[:] = A @ B\n", static_only=True),
    py("P03", "__matmul__", "def entry(C, A, B):\n    C[:] = A.__matmul__(B)\n", static_only=True),
    py(
        "P04",
        "dot method by another name",
        "def entry(C, A, B):\n    C[:] = A.dot(B)\n",
        static_only=True,
    ),
    py(
        "P05",
        "getattr by a built name",
        "def entry(C, A, B):\n    C[:] = getattr(A, '__mat' + 'mul__')(B)\n",
        static_only=True,
    ),
    py("P06", "exec of text", with_line("exec('x = 1')"), static_only=True),
    py("P07", "eval of text", with_line("eval('1')"), static_only=True),
    py("P08", "__import__", with_line("__import__('os')"), static_only=True),
    py("P09", "zeros", "def entry(C, A, B):\n    C[:] = 0\n"),
    py("P10", "writes nothing", "def entry(C, A, B):\n    return None\n"),
    py("P11", "exits 0 at import", "raise SystemExit(0)\n" + HONEST),
    py("P12", "os._exit(0)", "import os\nos._exit(0)\n"),
    py("P13", "prints a verdict", "print('PASS')\ndef entry(C, A, B):\n    pass\n"),
    py(
        "P14",
        "try and fall back",
        HONEST.replace(
            "    for i in range(5):",
            "    try:\n        pass\n    except Exception:\n        pass\n    for i in range(5):",
        ),
        static_only=True,
    ),
    py("P15", "walks frames", with_line("f = (lambda: 0).__code__"), static_only=True),
    py("P16", "garbage collector", "import gc\n" + HONEST, static_only=True),
    py("P17", "ctypes", "import ctypes\n" + HONEST, static_only=True),
    py(
        "P18",
        "a thread",
        "import threading\n" + with_line("threading.Thread(target=int).start()"),
        static_only=True,
    ),
    py("P19", "subclasses", with_line("().__class__.__base__.__subclasses__()"), static_only=True),
    py("P20", "makes inputs writable", with_line("A.flags.writeable = True; A[0, 0] = 0")),
    py(
        "P21",
        "remembers calls",
        "STATE = {}\ndef entry(C, A, B):\n    if 'c' in STATE:\n        C[:] = STATE['c']\n        return\n"
        + HONEST.partition("\n")[2].partition("\n")[2]
        + "    STATE['c'] = C.copy()\n",
    ),
    py("P22", "skips the last column", HONEST.replace("range(4)", "range(3)")),
    py("P23", "skips the last term", HONEST.replace("range(6)", "range(5)")),
    py("P24", "endless loop", "def entry(C, A, B):\n    while True:\n        pass\n"),
    py("P25", "swallows NaN", HONEST.replace("C[i, j] = s", "C[i, j] = s if s == s else 0")),
    py(
        "P26",
        "a class with __eq__",
        "class Same:\n    def __eq__(self, other):\n        return True\n" + HONEST,
        static_only=True,
    ),
    py("P27", "writes outside", HONEST + "    C[5, 0] = 1\n"),
    py(
        "P28",
        "comment trick for line scanners",
        "x = 4 // 2; import threading\n" + HONEST,
        static_only=True,
    ),
    py(
        "P29",
        "string trick for line scanners",
        "x = '#'; import threading\n" + HONEST,
        static_only=True,
    ),
    py(
        "P30",
        "unicode look-alike name",
        "def entry(C, A, B):\n    ｅｘｅｃ('x = 1')\n    C[:] = 0\n",
    ),
    py(
        "P31",
        "decorator that replaces the kernel",
        "def keep(f):\n    return lambda C, A, B: None\n@keep\n" + HONEST.strip() + "\n",
    ),
    py(
        "P32",
        "format string attribute walk",
        with_line("'{0.__class__}'.format(A)"),
        static_only=True,
    ),
    py(
        "P33",
        "half precision inside",
        HONEST.replace(
            "s = s + A[i, k] * B[k, j]",
            "s = (s + A[i, k] * B[k, j]).astype('float16').astype('float32')",
        ),
    ),
    py("P34", "reads a file", with_line("open('/etc/passwd')"), static_only=True),
)

CONTROLS = (
    py("Q01", "plain loops", HONEST, honest=True),
    py(
        "Q02",
        "k outermost",
        "def entry(C, A, B):\n    C[:] = 0\n    for k in range(6):\n        for i in range(5):\n            for j in range(4):\n                C[i, j] = C[i, j] + A[i, k] * B[k, j]\n",
        honest=True,
    ),
    py(
        "Q03",
        "rows at once",
        "def entry(C, A, B):\n    for i in range(5):\n        C[i] = 0\n        for k in range(6):\n            C[i] = C[i] + A[i, k] * B[k]\n",
        honest=True,
    ),
    py(
        "Q04",
        "a nested function",
        "def entry(C, A, B):\n    def dot(i, j):\n        s = 0.0\n        for k in range(6):\n            s = s + A[i, k] * B[k, j]\n        return s\n    for i in range(5):\n        for j in range(4):\n            C[i, j] = dot(i, j)\n",
        honest=True,
    ),
)

ALL = (*ATTACKS, *CONTROLS)
