"""The backend manifest: one frozen value answers every question the rest of SepTran asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from septran.backends.text.python_rules import UNMODELLED as UNMODELLED
from septran.errors import InternalError
from septran.ir.nodes import Buffer, LeafCall, Program
from septran.ir.size_asked import SizeAsked
from septran.kernel import Kernel, KernelParam, Leaf, LeafSpec, leaf_specs
from septran.passes.name_leaves import Runtime, name_leaves
from septran.passes.run import Pass, PassRun, lower
from septran.prove.foreign.launch import Launch
from septran.prove.printed import Printed
from septran.toolchain.built import Availability as Availability
from septran.toolchain.built import Built as Built
from septran.toolchain.wheels import Wheel

Capability = Literal["emit", "compile", "emulate", "device"]

THREW = 97
"""Exit status of a judged file's entry that an exception left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileCost:
    """What a compiler's listing says of a leaf. cycles: of a full tile. throughput: cycles of a round of its hot loop that waits for nothing.

    bound: what bounds that loop, in words; None, "": nobody counted it.
    """

    cycles: float | None = None
    throughput: float | None = None
    bound: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDevice:
    """How kernels of a backend run on a real GPU.

    vendor: whose GPU. build: kernel + empty folder -> Built whose artifact the loader loads.
    loader: template under verify_templates/loaders/ that runs the artifact on the device.
    session: as `Backend.session`, for children that hold a GPU. env: variables they need besides.
    """

    vendor: Literal["nvidia", "amd"]
    build: Callable[[Kernel, Path], Built]
    loader: str
    session: tuple[tuple[str, object], ...] = ()
    env: Callable[[], tuple[tuple[str, str], ...]] = tuple


@dataclass(frozen=True, slots=True, kw_only=True)
class HostParam:
    """A parameter of somebody's host function.

    kind: any (Python says nothing), tensor or number. writes: through a tensor that is not const.
    dtype: of the tensor's elements or the number, "" when the language does not say. default: it has one; value: which.
    many: it stands for as many more as are given (`*args`). keyword: it is given by its name only.
    """

    name: str
    kind: Literal["any", "tensor", "number"] = "any"
    dtype: str = ""
    writes: bool = False
    default: bool = False
    many: bool = False
    keyword: bool = False
    value: float | int | bool = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """A function that makes the kernel which is called, from sizes.

    params: its own. dims: of each tensor that the kernel takes, the extents: a parameter's name, or "".
    shown: (name, value) of the call that the file itself makes.
    """

    params: tuple[HostParam, ...]
    dims: tuple[tuple[str, ...], ...]
    shown: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The host function of a file that SepTran did not write: what allocates and launches. line: where it is.

    params: of what is called. module: it is a class whose objects are called, made with what the reference's
    `get_init_inputs` gives. maker: it makes the kernel that is called. tier: 0 what is likeliest meant; functions of a
    higher one are asked only where none of a lower one fits the reference. gives: the parameters that what it returns may be, None where
    it returns nothing or that is not known. result: what a function of typed parameters returns, a tensor or one number.
    """

    name: str
    line: int
    params: tuple[HostParam, ...]
    module: bool = False
    maker: Maker | None = None
    tier: int = 0
    gives: tuple[str, ...] | None = None
    result: HostParam | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What a host function is called with at one place: tensor `param` of the problem, or `value`. keyword: "" = by place.

    many, items: it is a list or a tuple of these. begins: the tensor whose values `param` holds before the call, which works in place; "" = none.
    """

    param: str = ""
    value: object = None
    keyword: str = ""
    begins: str = ""
    many: Literal["", "list", "tuple"] = ""
    items: tuple[Passed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCall:
    """A host function and its arguments. returns: it gives the outputs back instead of writing into parameters.

    made_with: what the module's object, or the maker's kernel, is made with. state: (name in the module's
    state_dict, tensor of the problem) of each weight that its object holds. allow_torch: operators that torch may compute.
    taken: what numbers that nobody gave may be, by name; the first is what they are here.
    """

    host: Host
    args: tuple[Passed, ...]
    returns: bool
    made_with: tuple[Passed, ...] = ()
    state: tuple[tuple[str, str], ...] = ()
    allow_torch: tuple[str, ...] = ()
    taken: tuple[tuple[tuple[str, int], ...], ...] = ()


@dataclass(frozen=True, slots=True)
class InPlace:
    """How a target puts leaves that a writer gave as text in place: those that it can read as operations of its own.

    put: Program with named leaves + leaves by symbol -> the Program. held: a printed kernel + a leaf's symbol -> the
    text of a leaf that was put in place, "" when there is none.
    """

    put: Callable[[Program, Mapping[str, Leaf]], Program]
    held: Callable[[str, str], str]


class Unjudged(Exception):
    """A file that SepTran did not write says what cannot be judged here. what: in words; line: of the file."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line
        self.what = what


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as compilers for some devices read it, or as it runs on them. devices: in words, "" when there is one reading.

    arch: of the target, None for its default one. flags: of the compiler, where another build of it is read. threads: of its
    teams, 0 for those of the session. versions: (package, version) that packages say they are, where it is not what is installed.
    """

    devices: str
    text: str
    arch: str | None = None
    flags: tuple[str, ...] = ()
    threads: int = 0
    versions: tuple[tuple[str, str], ...] = ()


def as_it_is(text: str) -> tuple[Reading, ...]:
    """Return a text that all devices read alike, as `Foreign.readings`."""
    return (Reading("", text),)


@dataclass(frozen=True, slots=True)
class Beside:
    """What lies beside a user's file. read: a file's text, an error of the user's where there is none.

    elsewhere: a file, a folder -> whether the file is not plainly in that folder or below.
    """

    read: Callable[[Path], str]
    elsewhere: Callable[[Path, Path], bool]


@dataclass(frozen=True, slots=True)
class Merged:
    """A text made of several files. lines: of each, the file it is of ("" for the first) and its number there. files: the others."""

    text: str
    lines: tuple[tuple[str, int], ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What a DSL's own compiler says of a file. done: what it made of it. refused: why it makes nothing of it; both "": it could not be asked.

    settles: what it made is all that a GPU would be given; nothing of compiling stays unchecked.
    """

    done: str = ""
    refused: str = ""
    settles: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """How a file that SepTran did not write is judged for a target.

    suffixes: of such files. marks: words of which the text holds one. claims: whether a text with such a word is for it. hosts: text -> the functions that may be the
        entry; SyntaxError where the text is none; `Unjudged`, as `kernel`. host: text, name -> that function, None when there is none. kernel: text, call, parameters, arch -> the Kernel that is judged, and what of the file was left out.
    objections: text, entry -> why the text is refused unseen (kind, what, line), or `UNMODELLED`; nothing of it has run then.
    build: as `Backend.build`, and raises `Unjudged` for what only the compiler finds. loader: template that calls the host function. session: as `Backend.session`.
    watched: as `Backend.watched`. aligned: kernel, folder -> a program of the same kind that tells of misaligned accesses. noted: as `Backend.noted`.
    sought: as `Backend.sought`. unordered: text -> whether it may add in any order.
    mixes: its host function may let torch compute beside the kernels (`HostCall.allow_torch`).
    unchecked: what this way of judging cannot see. unsupported: text -> what it uses that cannot be judged here.
    readings: text -> each text that compilers for different devices make of it, or each device that it may tell from others,
        that of the card first; lines stay; raises `Unjudged`. between_calls: text, entry -> names that live from call to call.
    unlaunched: text without such functions -> line, why the likeliest that launches is none, what to do; None where nothing launches.
    unset: kernel, folder -> builds whose variables that nobody set hold something else; none where none is read.
    sizes: text -> its comparisons of sizes with numbers. placed: text -> lines that compare nothing which tensors' values decide.
    threads: text -> how many its teams ask for by a number, 0: any. elsewhere: text -> names it asks whose other answers no build here gives.
    launches: text, file, call, parameters, folder of the run -> the accesses of the launches that were made, for proofs.
    beside: file, text, what lies beside it -> the text with what it imports from there; None: it imports nothing of a user's.
    otherwise: what judges the file where `kernel` raises `Unjudged`, or where torch may compute; its hosts are the same.
    compiled: kernel, folder -> what the DSL's own compiler says of it without a device; None: it is not asked.
    device: how the file runs on a GPU as its users run it, None: only as above. on_device: as `kernel`, what runs there; None: the same Kernel.
    """

    suffixes: tuple[str, ...]
    marks: tuple[str, ...]
    hosts: Callable[[str], tuple[Host, ...]]
    host: Callable[[str, str], Host | None]
    kernel: Callable[[str, HostCall, tuple[KernelParam, ...], str], tuple[Kernel, tuple[str, ...]]]
    build: Callable[[Kernel, Path], Built]
    loader: str
    session: tuple[tuple[str, object], ...] = ()
    objections: Callable[[str, str], tuple[tuple[str, str, int], ...]] | None = None
    unchecked: tuple[str, ...] = ()
    unsupported: Callable[[str], tuple[str, ...]] | None = None
    readings: Callable[[str], tuple[Reading, ...]] = as_it_is
    between_calls: Callable[[str, str], tuple[str, ...]] | None = None
    unset: Callable[[Kernel, Path], Iterator[Built]] | None = None
    threads: Callable[[str], int] | None = None
    elsewhere: Callable[[str], tuple[str, ...]] | None = None
    sizes: Callable[[str], tuple[SizeAsked, ...]] | None = None
    placed: Callable[[str], frozenset[int]] | None = None
    launches: (
        Callable[[str, str, HostCall, tuple[KernelParam, ...], Path], tuple[Launch, ...]] | None
    ) = None
    watched: Callable[[Kernel, Path], Built] | None = None
    aligned: Callable[[Kernel, Path], Built] | None = None
    noted: Callable[[Kernel, Path], Built] | None = None
    sought: Callable[[Kernel, Path], Built] | None = None
    unordered: Callable[[str], bool] = lambda text: False
    mixes: bool = False
    beside: Callable[[Path, str, Beside], Merged] | None = None
    otherwise: Foreign | None = None
    compiled: Callable[[Kernel, Path], Compiled] | None = None
    device: OnDevice | None = None
    on_device: (
        Callable[[str, HostCall, tuple[KernelParam, ...], str], tuple[Kernel, tuple[str, ...]]]
        | None
    ) = None
    claims: Callable[[str], bool] = lambda text: True
    unlaunched: Callable[[str], tuple[int, str, str] | None] = lambda text: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """How kernels for another processor than this machine's run here.

    command: what runs its static programs; (): the loader does. loader: in place of the backend's, "" for that.
    session: further fields of `Sessions`.
    """

    command: tuple[str, ...] = ()
    loader: str = ""
    session: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """Everything SepTran knows about one target.

    name: also the mapping file's stem (`mappings/<name>.mapping.yaml` or `<name>.<arch>.mapping.yaml`).
    arches: known arch names; the first is the default. () = no arch.
    language: fence tag and docs word ("cpp", "cuda", "python", "c").
    subset: what a leaf that somebody else wrote may say: configs/leaves/<subset>.yaml; "" = as `language`.
    suffix: of the main file (".cpp").
    passes: names and functions run after bind, in order. They end where leaves are asked for.
    finish: those run after leaves are chosen and `name_leaves` has written them into the Program. They end
        where printing starts, so `passes` and `finish` together are the whole lowering.
    library: spec -> leaf from the shipped library, None when it has none for this spec.
    call_style: how leaves are declared; the text a leaf writer must reproduce (signature).
    print_kernel: finished Program + leaves by symbol, in order of first use -> Kernel. It decides nothing.
    build: Kernel + empty folder -> Built (runs the toolchain, sandboxed).
    loader: template under verify_templates/loaders/ that loads and calls the artifact.
    where: what running without the device means here.
    available: capability -> Availability (probes tools; never raises).
    """

    name: str
    title: str
    language: str
    suffix: str
    arches: tuple[str, ...]
    machine: Callable[[str], str]
    passes: tuple[tuple[str, Pass], ...]
    library: Callable[[LeafSpec], Leaf | None]
    signature: Callable[[LeafSpec], str]
    print_kernel: Callable[[Program, Mapping[str, Leaf]], Kernel]
    build: Callable[[Kernel, Path], Built]
    loader: str
    where: Literal["native", "emulated"]
    available: Callable[[], Mapping[Capability, Availability]]
    docs: str
    emulator: Callable[[str], Emulation | Availability | None] = lambda arch: None
    """arch -> how its kernels run on a processor of another kind, None for this machine's own, or what is missing;
    never raises"""
    finish: tuple[tuple[str, Pass], ...] = ()
    dtypes: tuple[str, ...] = ("float32",)
    lacks: tuple[tuple[str, str], ...] = ()
    """(float type that `dtypes` lacks, why), for who asks for it"""
    subset: str = ""
    dynamic: bool = False
    """whether its kernels can read sizes when they run (`Program.dims`)"""
    views: bool = False
    """whether tensors may be read and written in another layout (task.reshape, permute, slice)"""
    fills: bool = False
    """whether what is outside a window may read as another number than 0"""
    functions: tuple[str, ...] = ()
    """which of `septran.ir.scalar.RARE` its `map` expressions may use"""
    whole_sums: bool = False
    """whether a product of integers into integers adds integers; where it adds floats it would not be exact"""
    movement: tuple[str, ...] = ()
    """which of scan, argreduce, gather and scatter_acc its library has leaves for"""
    opaque: bool = False
    """whether a leaf may work on whole tensors that no library knows (`extern`)"""
    layouts: Callable[[LeafCall], Mapping[str, str]] | None = field(default=None)
    """leaf call -> param -> buffer layout its library leaf wants for operands staged by a copy."""
    columns: int = 0
    """of a panel, in which its products read weights that are prepared once (frontend/pack_weights.py); 0: weights stay as they are"""
    scratch: Callable[[Leaf], tuple[Buffer, ...]] | None = field(default=None)
    """leaf -> memory of a kernel that its calls hand to it, where a function of the language cannot allocate."""
    runtime: Runtime | None = field(default=None)
    """Program + its leaves -> the parts of the target's runtime that a kernel has to bring (`passes.name_leaves`)."""
    session: tuple[tuple[str, object], ...] = ()
    """how children that run this backend's kernels differ from the default: memory_bytes, address_space,
    load_timeout_s, call_timeout_s, ro_paths, env, ... (fields of septran.verify.session.Sessions)."""
    tile_cost: Callable[[Kernel, Leaf, Path], TileCost] | None = field(default=None)
    """kernel, a leaf of it, folder to work in -> what the compiler's listing says of a full tile."""
    figures: Callable[[Mapping[str, Any], Kernel], Mapping[str, Any]] | None = field(default=None)
    """figures its simulator's child left + kernel -> the verdict's `cycles`; ValueError: impossible."""
    load: Callable[[Kernel, Path], Callable[..., None]] | None = field(default=None)
    """verified kernel + empty folder -> callable on torch tensors in `Kernel.params` order, results in
    place. It runs in the caller's process and on the real target, so only verified kernels are loaded."""
    launch: Callable[[Kernel, Path], Callable[..., None]] | None = field(default=None)
    """kernel + what was built of it -> callable as `load`'s, without a build of its own; None: it only loads."""
    filled: Callable[[Kernel, Path], Built] | None = field(default=None)
    """as `build`, but locals that nobody set hold a pattern; None: those of `build` do, or there are none."""
    watched: Callable[[Kernel, Path], Built] | None = field(default=None)
    """kernel + empty folder -> a program that calls it in bursts and sees races of its threads; None: it has none of its own."""
    noted: Callable[[Kernel, Path], Built] | None = field(default=None)
    """as `build`, but its emulation knows which threads store and load each byte of shared memory; None: it does not, or there is none"""
    sought: Callable[[Kernel, Path], Built] | None = field(default=None)
    """kernel + empty folder -> a program that seeks inputs on which its comparisons come out otherwise; None: it is no C"""
    declared: Callable[[Program], str] = lambda program: ""
    """Program -> the word of `math:` whose rounding its leaves have although it is worse than that of sums; "" for none"""
    maths: tuple[str, ...] = ()
    """the words that `declared` gives"""
    room: Callable[[Kernel], int] | None = field(default=None)
    """kernel -> all that its emulation knows of its arch besides the text: how much room it has. The same text with no less
    room runs the same; None: archs differ in how they run"""
    flushes_denormals: Callable[[str], bool] = lambda arch: False
    """arch -> whether the machine reads and writes numbers below the normal ones as 0"""
    packages: tuple[str, ...] = ()
    """pip requirements of the environment that only its children use (`septran doctor --install`)."""
    pythons: tuple[str, ...] = ()
    """versions of Python ("3.11") for which all of `packages` exist; () = any that SepTran runs on"""
    extras: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(name, pip requirements) that go there only when asked for (`--install TARGET+NAME`): large, or under terms of their own"""
    parts: Callable[[], Mapping[str, Wheel]] = dict
    """name -> files of one wheel that `--install TARGET+NAME` brings: a vendor's library for one of its archs"""
    copies_ordered_by: str = ""
    """who orders copies and leaves instead of the Program's own Sync, Post and Await; "" = nobody else does."""
    read_back: Callable[[Kernel, Program], Printed] | None = field(default=None)
    """kernel + the finished Program (which only says how buffers lie) -> what its text says; None: nobody reads it."""
    device: OnDevice | None = field(default=None)
    """how kernels run on a GPU when this machine has one that fits; None: `where` is all there is."""
    foreigns: tuple[Foreign, ...] = ()
    """how files that SepTran did not write are judged; None: they are not."""

    in_place: InPlace | None = field(default=None)
    """what puts leaves that a writer gave as text in place, where the target's passes can; None: they are functions."""

    def finishing(self, leaves: Mapping[str, Leaf]) -> tuple[tuple[str, Pass], ...]:
        """Return the passes that follow `passes` once `leaves` are chosen (by spec key)."""
        named = partial(name_leaves, leaves=leaves, scratch=self.scratch, runtime=self.runtime)
        found: tuple[tuple[str, Pass], ...] = (("name_leaves", named),)
        if self.in_place is not None:
            known = {leaf.spec.symbol: leaf for leaf in leaves.values()}
            put = self.in_place.put
            found += (("place_leaves", lambda program: put(program, known)),)
        return (*found, *self.finish)

    def finished(
        self,
        program: Program,
        leaves: Mapping[str, Leaf],
        *,
        after: Callable[[PassRun], None] | None = None,
        check: bool = True,
    ) -> Program:
        """Return what is printed of a lowered `program`.

        leaves: by spec key; the library's stand in for those that are missing. after, check: as in `lower`.

        Raises:
            MappingError: a pass found the mapping impossible, as M011 does when a memory is too small.
            InternalError: a leaf is missing that the library does not have either.
        """
        return lower(
            program, self.finishing(self.complete(program, leaves)), after=after, check=check
        )

    def emit(
        self,
        program: Program,
        leaves: Mapping[str, Leaf],
        *,
        after: Callable[[PassRun], None] | None = None,
    ) -> Kernel:
        """Return the kernel of a lowered `program`: `finish` runs, then the result is printed.

        leaves, after, raised errors: as `finished`.
        """
        chosen = self.complete(program, leaves)
        ready = self.finished(program, chosen, after=after)
        return self.print_kernel(ready, {x.spec.symbol: x for x in chosen.values()})

    def floor(self, spec: LeafSpec) -> Leaf | None:
        """Return the library's leaf, None for an opaque one: a library cannot know what a torch graph means."""
        return None if spec.opaque else self.library(spec)

    def complete(self, program: Program, leaves: Mapping[str, Leaf]) -> dict[str, Leaf]:
        """Return a leaf for each LeafSpec of `program` by its key, in order of first use."""
        found: dict[str, Leaf] = {}
        for _, spec in leaf_specs(program):
            leaf = found.get(spec.key) or leaves.get(spec.key) or self.floor(spec)
            if leaf is None:
                raise InternalError(f"{self.name}: no leaf for task {spec.task}")
            found[spec.key] = leaf
        return found
