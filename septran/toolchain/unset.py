"""Builds of a C++ file in which variables nobody set hold other values than in the build that is judged.

The compiler's own pattern is one value for all calls, whose bits a test may pass by luck. Whether such a variable matters at all
is decided first: where no pattern is left in the optimised code, the compiler has shown that none is read.
"""

from __future__ import annotations

import difflib
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from septran.kernel import Kernel
from septran.toolchain.built import Built
from septran.toolchain.compilers import Compiler, fills_locals
from septran.toolchain.confined import plain, run_confined, toolchain_folders

_HOLD = "-ftrivial-auto-var-init="
_HELD = (f"{_HOLD}pattern", f"{_HOLD}zero")
_PLAIN = ("-O0", "-g0")
_READ = "unset.txt"
# each function first fills what will be its frame: a register or an earlier call's value can stand in for nothing then. The
# registers that it needs are kept in ones that no caller expects back; the words: nothing, ones, NaN, ordinary and extreme numbers
_ENTERED = r"""
__asm__(R"(
  .section .data.septran_word,"aw"
  .balign 8
septran_word: .quad 7
  .section .rodata.septran_words,"a"
  .balign 8
septran_words:
  .quad 0, 0x0000000100000001, -1, 0x4b4b4b4b4b4b4b4b, 0x0202020202020202, 0x7e7e7e7e7e7e7e7e, 0x3f8000003f800000, 0xbff0000000000000
  .section .text.septran_entered,"ax"
  .globl __fentry__
  .type __fentry__, @function
__fentry__:
  movq %rax, %xmm8
  movq %rcx, %xmm9
  movq %rdi, %xmm10
  movabsq $6364136223846793005, %rcx
  movq septran_word(%rip), %rax
  imulq %rcx, %rax
  addq $1442695041, %rax
  movq %rax, septran_word(%rip)
  shrq $61, %rax
  leaq septran_words(%rip), %rdi
  movq (%rdi,%rax,8), %rax
  leaq -2048(%rsp), %rdi
  movl $256, %ecx
  rep stosq
  movq %xmm10, %rdi
  movq %xmm9, %rcx
  movq %xmm8, %rax
  ret
  .size __fentry__, .-__fentry__
  .text
)");
"""
_FUNCTION = re.compile(r"^([\w.$]+):\n(.*?)^\t\.size\t\1,", re.MULTILINE | re.DOTALL)
_STORED = re.compile(r"^(\tmov(?:b|w|l|q|absq)\t\$)(-?\d+)(, .*)$")
_SAME = ((0xFE, 1), (0xAA, 1))
"""bytes of the compilers' patterns, and what is put in their place: odd, and no negative number"""


def unset_otherwise(
    kernel: Kernel,
    folder: Path,
    compiler: Compiler,
    flags: Sequence[str],
    compile_with: Callable[[Kernel, Path, tuple[str, ...]], Built],
) -> Iterator[Built]:
    """Yield builds of `kernel` in folders of `folder`, whose unset variables hold one thing after another in turn.

    flags: of the compiler, without what says what such variables hold; none is yielded where none is read, or where the compiler
    has no such flag. compile_with: kernel, folder, further flags -> the build.
    """
    if not fills_locals(compiler):
        return
    asked = (*flags, *fills_locals(compiler), "-g0", f"-fdump-tree-optimized={_READ}")
    if _assembled(kernel, folder, compiler, asked) is None or not _is_read(folder / _READ):
        return
    if platform.machine() == "x86_64":
        entered = _with_text(kernel, kernel.main, f"{kernel.source}\n{_ENTERED}")
        yield compile_with(
            entered, folder / "entered", (*_PLAIN, f"{_HOLD}uninitialized", "-pg", "-mfentry")
        )
    yield compile_with(kernel, folder / "zero", (*_PLAIN, _HELD[1]))
    plain_texts = [_assembled(kernel, folder, compiler, (*flags, *_PLAIN, h)) for h in _HELD]
    if plain_texts[0] is None or plain_texts[1] is None:
        return
    text, changed = otherwise(plain_texts[0], plain_texts[1])
    if changed:
        yield compile_with(_with_text(kernel, "unset.s", text), folder / "odd", ())


def _is_read(path: Path) -> bool:
    """Whether the optimised code still gives a variable its pattern; what a compiler without such a text does is not known."""
    return not plain(path) or ".DEFERRED_INIT" in path.read_text(encoding="utf-8", errors="replace")


def otherwise(pattern: str, zero: str) -> tuple[str, int]:
    """Return the code `pattern` with odd numbers where it gives a variable the compiler's pattern, and how many.

    zero: the same code where they hold zero. What both have alike the file's author wrote.
    """
    known = dict(_FUNCTION.findall(zero))
    changed = 0

    def function(match: re.Match[str]) -> str:
        nonlocal changed
        name, body = match[1], match[2]
        if known.get(name, body) == body:
            return match[0]
        lines, others = body.splitlines(), known[name].splitlines()
        for tag, start, end, _, _ in difflib.SequenceMatcher(
            None, lines, others, autojunk=False
        ).get_opcodes():
            for at in range(start, end) if tag in ("replace", "delete") else ():
                if (found := _STORED.match(lines[at])) and (value := _odd(int(found[2]))):
                    lines[at] = f"{found[1]}{value}{found[3]}"
                    changed += 1
        return match[0].replace(body, "\n".join(lines) + "\n", 1)

    return _FUNCTION.sub(function, pattern), changed


def _odd(value: int) -> int | None:
    """Return what stands for a stored pattern of 1, 2, 4 or 8 bytes; None when it is none."""
    for byte, new in _SAME:
        for size in (8, 4, 2, 1):
            whole = int.from_bytes(bytes([byte]) * size, "little")
            if value in (whole, whole - (1 << 8 * size)):
                return int.from_bytes(bytes([new]) * size, "little")
    return None


def _with_text(kernel: Kernel, main: str, text: str) -> Kernel:
    others = tuple((n, t) for n, t in kernel.files if n not in (main, kernel.main))
    return replace(kernel, main=main, files=(*others, (main, text)))


def _assembled(
    kernel: Kernel, folder: Path, compiler: Compiler, flags: Sequence[str]
) -> str | None:
    """Return what the compiler makes of the file, confined; None when it makes nothing."""
    kernel.write(folder)
    words = [compiler.path, *(f for f in flags if f != "-shared"), "-DSEPTRAN_HOSTED", "-S"]
    reads = toolchain_folders(compiler.path, {})
    made = folder / "unset.s"
    made.unlink(missing_ok=True)
    done = run_confined([*words, f"./{kernel.main}", "-o", made.name], folder, 60.0, reads=reads)
    if done.code != 0 or not plain(made):
        return None
    return made.read_text(encoding="utf-8", errors="replace")
