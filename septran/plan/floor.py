"""The floor of a program's leaves: the user's leaf files where the mapping binds them, else the library."""

from __future__ import annotations

from pathlib import Path

from septran.backends.base import Backend
from septran.errors import MappingError, SeptranError, Span
from septran.ir.nodes import Program
from septran.kernel import Leaf, LeafSpec, leaf_specs
from septran.leafgate import Refusal, printed
from septran.mapping.schema import ExplicitMapping, LeafKernelFile

_LARGEST = 1 << 20


def library_leaves(
    backend: Backend, program: Program, mapping: ExplicitMapping, *, opaque: bool = False
) -> dict[str, Leaf]:
    """Return the floor: the user's leaf files where bound, else library leaves.

    opaque: whether opaque leaves, which no library has, may be missing.

    Raises:
        MappingError: M053 a leaf kernel file that cannot be used, M172 an expression needs integers that the
            target does not have. SeptranError L520 no library leaf, or an opaque one that nobody wrote.
    """
    from septran.agent.library import library_leaf

    found: dict[str, Leaf] = {}
    for call, spec in leaf_specs(program):
        if spec.key in found:
            continue
        file = mapping.leaf_kernels.get(call.impl)
        if file:
            found[spec.key] = _from_file(file, backend, spec, mapping)
            continue
        if spec.opaque:
            if not opaque:
                raise nobodys(spec, call.span)
            continue
        try:
            found[spec.key] = library_leaf(backend.library, spec)
        except MappingError as error:  # the library knows what is wrong, not where it was written
            raise error.placed(call.span) from None
    return found


def nobodys(spec: LeafSpec, span: Span | None) -> SeptranError:
    """Return the error L520 of an opaque leaf that nobody has written."""
    text = str(next(p.attr("graph") for p in spec.prims if p.name == "extern"))
    lines = [line for line in text.splitlines() if "aten." in line]
    return SeptranError.of(
        "L520",
        f"{spec.task} is opaque: it means a part of a torch graph, so the library has no leaf for it",
        span,
        notes=lines[:6],
        help="let a model write it (`--writer llm`, `--writer command:PROGRAM`), take one that was stored (`--writer auto`), "
        "bind a file of your own in the mapping, or leave the part to torch (`--task FILE --fallback torch`)",
    )


def _text_of(path: Path, file: LeafKernelFile) -> str:
    try:
        if not path.is_file():
            what = "does not exist"
        elif path.stat().st_size > _LARGEST:
            what = f"is larger than {_LARGEST >> 20} MiB"
        else:
            return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # a name that is none; no UTF-8
        what = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    shown = str(path) if len(str(path)) <= 200 else f"{str(path)[:200]}.."
    raise MappingError.of("M053", f"leaf kernel {file.name}: {shown} {what}", file.span)


def _from_file(
    file: LeafKernelFile, backend: Backend, spec: LeafSpec, mapping: ExplicitMapping
) -> Leaf:
    path = Path(mapping.file).parent / file.source
    text = _text_of(path, file)
    if file.symbol not in text:
        raise MappingError.of(
            "M053", f"leaf kernel {file.name}: {path} does not define {file.symbol!r}", file.span
        )
    source = text.replace(file.symbol, spec.symbol)
    leaf = Leaf(spec=spec, writer="file", name=file.name, source=source)
    try:
        return admitted(leaf, backend)
    except Refusal as why:
        raise MappingError.of(
            "M053",
            f"leaf kernel {file.name}: {path}:{why.line}: {why.what}",
            file.span,
            help=why.instead,
        ) from None


def admitted(leaf: Leaf, backend: Backend) -> Leaf:
    """Return a leaf that somebody else wrote as the gate prints it: the only text that is compiled.

    Raises:
        Refusal: it is not part of the target's subset.
    """
    return printed(
        leaf, signature=backend.signature(leaf.spec), subset=backend.subset or backend.language
    )
