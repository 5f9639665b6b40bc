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

ZERO = "def entry(C, A, B):\n    C[:] = 0\n"
PROCESS = (
    py(
        "P35",
        "looks for the reference among all objects",
        "import gc\ndef entry(C, A, B):\n    C[:] = 0\n    for x in gc.get_objects():\n"
        "        if getattr(x, 'shape', None) == C.shape and x is not C and getattr(x, 'ndim', 0) == 2:\n            C[:] = x\n",
    ),
    py(
        "P36",
        "walks the frames for the plan",
        "import sys\ndef entry(C, A, B):\n    f = sys._getframe()\n    while f:\n        found = f.f_globals.get('PLAN', {})\n"
        "        f = f.f_back\n    C[:] = found.get('seed', 0)\n",
    ),
    py(
        "P37",
        "writes when the process ends",
        "import atexit\nKEEP = []\natexit.register(lambda: KEEP[0].__setitem__((0, 0), 7))\n"
        + with_line("KEEP.append(C)"),
        static_only=True,
    ),
    py(
        "P38",
        "writes from a timer's signal",
        "import signal\nKEEP = []\ndef late(*_):\n    KEEP[-1][0, 0] = 42\nsignal.signal(signal.SIGALRM, late)\n"
        + HONEST
        + "    KEEP.append(C)\n    signal.setitimer(signal.ITIMER_REAL, 0.004)\n",
    ),
    py(
        "P39",
        "replaces a module",
        "import sys\nimport numpy\nsys.modules['json'] = None\n" + HONEST,
        static_only=True,
    ),
    py(
        "P40",
        "an import hook",
        "import sys\nsys.meta_path.insert(0, None) if False else None\n" + HONEST,
        static_only=True,
    ),
    py(
        "P41",
        "speaks in the harness's name",
        "import __main__\ndef entry(C, A, B):\n    C[:] = 0\n    __main__._say({'done': True, 'threads': 1})\n",
    ),
    py(
        "P42",
        "says done before it is done",
        "import __main__, threading, time\ndef work(C, A, B):\n    time.sleep(0.05)\n    C[:] = A @ B\n"
        "def entry(C, A, B):\n    threading.Thread(target=work, args=(C, A, B)).start()\n    __main__._say({'done': True})\n",
    ),
    py(
        "P43",
        "runs a pickle",
        "import pickle\npickle.loads(b'cbuiltins\\neval\\n(V1\\ntR.')\n" + HONEST,
        static_only=True,
    ),
    py(
        "P44",
        "writes an input through its address",
        "import ctypes\n" + HONEST + "    ctypes.memset(A.ctypes.data, 0, 4)\n",
    ),
    py("P45", "formats values", with_line("x = f'{A}'"), static_only=True),
    py(
        "P46",
        "takes a module out of the language",
        "from triton import runtime\n" + HONEST,
        static_only=True,
    ),
    py(
        "P47",
        "remembers calls by their contents",
        "SEEN = {}\ndef entry(C, A, B):\n    key = (float(A[0, 0]), float(B[0, 0]), float(A.sum()))\n    if key in SEEN:\n"
        "        C[:] = SEEN[key]\n        return\n"
        + HONEST.partition("\n")[2].partition("\n")[2]
        + "    SEEN[key] = C * 1\n",
    ),
    py(
        "P48",
        "leaves threads",
        "import threading, time\n"
        + with_line("threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"),
    ),
    py(
        "P49",
        "grows by a megabyte a call",
        "KEEP = []\n" + with_line("KEEP.append(A.repeat(1 << 18) * 1)"),
    ),
    py(
        "P50",
        "changes the rounding mode",
        "import ctypes\n" + HONEST + "    ctypes.CDLL('libm.so.6').fesetround(0x800)\n",
    ),
    py("P51", "ends the process in the call", with_line("raise SystemExit(0)")),
    py(
        "P52",
        "recursion without end",
        "def down(n):\n    return down(n + 1)\n" + with_line("down(0)"),
    ),
    py("P53", "floods the log", with_line("print('x' * (1 << 27))")),
    py(
        "P54",
        "starts a program",
        "import os\n" + with_line("os.system('echo cheat')"),
        static_only=True,
    ),
    py("P55", "opens a socket", "import socket\n" + with_line("socket.socket()")),
    py(
        "P56",
        "leaves the harness without pipes",
        "import os\n" + HONEST + "    os.closerange(3, 64)\n",
    ),
    py(
        "P57",
        "leaves a false report",
        "import os\n" + ZERO + "    os.symlink('/etc/passwd', 'diagnostics.json')\n",
    ),
    py(
        "P58",
        "a finaliser that writes later",
        "class Late:\n    def __init__(self, c):\n        self.c = c\n    def __del__(self):\n        self.c[0, 0] = 42\nKEEP = []\n"
        + with_line("KEEP[:] = [Late(C)]"),
    ),
    py(
        "P59",
        "patches numpy",
        "import numpy\nnumpy.float32 = numpy.float64\n" + HONEST,
        static_only=True,
    ),
    py(
        "P60",
        "kills the harness",
        "import os\n" + with_line("os.kill(os.getppid(), 9); os.kill(os.getpid(), 9)"),
    ),
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

ALL = (*ATTACKS, *PROCESS, *CONTROLS)
