"""Read a mapping file, in the seeds' form or as a target's policy; report all mistakes at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from septran import spanyaml
from septran.errors import Diagnostic, MappingError, Span, closest
from septran.ir.dtypes import DTYPES
from septran.ir.nodes import PRIMITIVE_NAMES
from septran.mapping import schema
from septran.mapping.arith import check_names
from septran.mapping.smaller import CAPPED
from septran.mapping.tune import read_tune

_EXPLICIT = (
    "target",
    "arch",
    "machine",
    "entrypoint",
    "task_mappings",
    "leaf_kernels",
    "constraints",
)
_POLICY = ("target", "arch", "machine", "policies", "constraints")
_INSTANCE = (
    "task_name",
    "variant",
    "proc",
    "mems",
    "tunables",
    "tiles",
    "calls",
    "leaf_task_bindings",
    *schema.OPTION_KEYS,
)
_POLICIES = ("grid", "locals", "halo", "rules", "smaller", "deterministic", *schema.OPTION_KEYS)
_RULE = ("match", "kernel", "mems", "tiles", *schema.OPTION_KEYS)
_KERNEL = ("dsl", "symbol", "source", "proc", "mems", "dtypes", "requires", "fragment")
_WHOLE = ("threads", "smem_limit", "swizzle")
# what a rule's expressions may name
_SIZE_NAMES = (*(f"ext_{role}" for role in schema.ROLES), "extent", "cores", "bytes", "skips")
_WHEN_NAMES = (*schema.ROLES, "bytes", "skips", "chained", "winograd")


def load_mapping(path: Path) -> schema.ExplicitMapping | schema.Policy:
    """Return the mapping in the file at `path`.

    Raises:
        ConfigError: C01x, not readable or not YAML. MappingError: M000-M002, M006, M017, M041, M042,
            M062, M091, all of them together.
    """
    wrong: list[Diagnostic] = []

    def tune(value: Any, span: Span) -> schema.Tune:
        try:
            return read_tune(value, span)
        except MappingError as e:
            wrong.extend(e.diagnostics)
            return schema.Tune(kind="choice", values=(), span=span)

    return parse_mapping(spanyaml.load(path, tags={"!tune": tune}), wrong)


def parse_mapping(
    doc: spanyaml.Document, wrong: Iterable[Diagnostic] = ()
) -> schema.ExplicitMapping | schema.Policy:
    """Return the mapping of a parsed document; raises as `load_mapping`.

    wrong: mistakes found while the document was read.
    """
    reader = _Reader(doc)
    reader.problems.extend(wrong)
    found = reader.read()
    if reader.problems:
        raise MappingError(sorted(reader.problems, key=lambda d: d.place))
    assert found is not None
    return found


class _Reader:
    """Turns the document into a mapping, collecting diagnostics."""

    def __init__(self, doc: spanyaml.Document) -> None:
        self.doc = doc
        self.problems: list[Diagnostic] = []

    def wrong(self, code: str, message: str, *path: str | int, key: bool = False) -> None:
        span = self.doc.key_span(*path) if key else self.doc.span(*path)
        self.problems.append(Diagnostic(code=code, message=message, span=span))

    def keys(
        self, what: str, value: Any, allowed: Iterable[str], *path: str | int
    ) -> dict[str, Any]:
        """Return `value` as a dict with only allowed keys (M000 not a mapping, M001 unknown key)."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.wrong("M000", f"{what} must be a mapping, found {type(value).__name__}", *path)
            return {}
        allowed = tuple(allowed)
        for key in value:
            if key not in allowed:
                self.wrong(
                    "M001",
                    f"{what}: unknown key {key!r}{closest(str(key), allowed)}",
                    *path,
                    key,
                    key=True,
                )
        return {k: v for k, v in value.items() if k in allowed}

    def among(self, what: str, value: Any, allowed: Iterable[str], *path: str | int) -> None:
        """M017 unless `value` is one of the allowed words."""
        allowed = tuple(allowed)
        if value not in allowed:
            self.wrong(
                "M017",
                f"{what}: {value!r} is unknown; known: {', '.join(allowed)}"
                f"{closest(str(value), allowed)}",
                *path,
            )

    def expression(self, text: str, names: Iterable[str], *path: str | int) -> None:
        """M062 when the expression names something else than `names`."""
        try:
            check_names(text, names, self.doc.span(*path))
        except MappingError as e:
            self.problems.extend(e.diagnostics)

    def table(self, what: str, value: Any, *path: str | int) -> dict[str, Any]:
        """Return `value` as a dict with any string keys (M000)."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.wrong("M000", f"{what} must be a mapping, found {type(value).__name__}", *path)
            return {}
        return {str(k): v for k, v in value.items()}

    def read(self) -> schema.ExplicitMapping | schema.Policy | None:
        data = self.doc.value
        if not isinstance(data, dict):
            self.wrong("M000", "a mapping file holds task_mappings: or policies:")
            return None
        if "policies" in data:
            return self.policy(self.keys("the policy file", data, _POLICY))
        if "task_mappings" not in data:
            self.wrong("M000", "neither task_mappings: nor policies: is given")
            for key in data:
                if key not in _EXPLICIT:
                    self.wrong(
                        "M001",
                        f"unknown key {key!r}{closest(str(key), (*_EXPLICIT, 'policies'))}",
                        key,
                        key=True,
                    )
            return None
        return self.explicit(self.keys("the mapping file", data, _EXPLICIT))

    def constraints(self, value: Any) -> tuple[tuple[str, Span | None], ...]:
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            self.wrong("M000", "constraints must be a list of expressions", "constraints")
            return ()
        return tuple((v, self.doc.span("constraints", i)) for i, v in enumerate(value))

    def word(self, key: str, value: Any) -> str | None:
        if value is not None and not isinstance(value, str):
            self.wrong("M000", f"{key} must be a name, found {value!r}", key)
            return None
        return value

    def explicit(self, data: dict[str, Any]) -> schema.ExplicitMapping:
        instances = {}
        for name, entry in self.table(
            "task_mappings", data["task_mappings"], "task_mappings"
        ).items():
            instances[name] = self.instance(name, entry)
        entry = data.get("entrypoint")
        if not isinstance(entry, str) or entry not in instances:
            self.wrong(
                "M002",
                f"entrypoint {entry!r} is not in task_mappings"
                f"{closest(str(entry), instances)}; it has {sorted(instances)}",
                "entrypoint",
            )
        for name, found in instances.items():
            for task, callee in found.calls.items():
                if callee not in instances:
                    self.wrong(
                        "M006",
                        f"{name}: calls maps {task!r} to {callee!r}, which is no instance"
                        f"{closest(str(callee), instances)}; instances are {sorted(instances)}",
                        "task_mappings",
                        name,
                        "calls",
                        task,
                    )
        self.cycles(instances)
        return schema.ExplicitMapping(
            file=self.doc.file,
            target=self.word("target", data.get("target")),
            arch=self.word("arch", data.get("arch")),
            entrypoint=str(entry),
            instances=instances,
            leaf_kernels=self.leaf_kernels(data.get("leaf_kernels")),
            constraints=self.constraints(data.get("constraints")),
            target_span=self.doc.span("target"),
        )

    def cycles(self, instances: Mapping[str, schema.Instance]) -> None:
        for start in instances:
            chain, at = [start], list(instances[start].calls.values())
            while at:
                name = at.pop()
                if name == start:
                    self.wrong(
                        "M009",
                        f"calls form a cycle: {' -> '.join([*chain, start])}",
                        "task_mappings",
                        start,
                        "calls",
                    )
                    return
                if name in instances and name not in chain:
                    chain.append(name)
                    at.extend(instances[name].calls.values())

    def instance(self, name: str, entry: Any) -> schema.Instance:
        path = ("task_mappings", name)
        data = self.keys(name, entry, _INSTANCE, *path)
        for key in ("task_name", "proc"):
            if key not in data and not (key == "task_name" and "variant" in data):
                self.wrong("M000", f"{name}: {key} is missing", *path, key=True)
        bindings = {
            leaf: self.binding(name, leaf, value, *path, "leaf_task_bindings", leaf)
            for leaf, value in self.table(
                f"{name}: leaf_task_bindings",
                data.get("leaf_task_bindings"),
                *path,
                "leaf_task_bindings",
            ).items()
        }
        options = {k: data[k] for k in schema.OPTION_KEYS if k in data}
        self.options(name, options, *path)
        spans = {p[2:]: s for p, s in self.doc.spans.items() if p[:2] == path}
        keys = {p[2:]: s for p, s in self.doc.key_spans.items() if p[:2] == path}
        return schema.Instance(
            name=name,
            task_name=str(data.get("variant") or data.get("task_name", "")),
            proc=str(data.get("proc", "")),
            mems=self.words(f"{name}: mems", data.get("mems"), *path, "mems"),
            tunables=self.table(f"{name}: tunables", data.get("tunables"), *path, "tunables"),
            tiles=self.tiles(name, data.get("tiles"), *path, "tiles"),
            calls=self.words(f"{name}: calls", data.get("calls"), *path, "calls"),
            leaf_task_bindings=bindings,
            options=options,
            spans=spans,
            key_spans=keys,
        )

    def options(self, name: str, options: Mapping[str, object], *path: str | int) -> None:
        for key, words in schema.OPTION_WORDS.items():
            if key in options and not isinstance(options[key], schema.Tune):
                self.among(f"{name}: {key}", options[key], words, *path, key)
        for key in _WHOLE:
            value = options.get(key, 1)
            if isinstance(value, bool) or not isinstance(value, int | schema.Tune):
                self.wrong(
                    "M000", f"{name}: {key} must be a whole number, found {value!r}", *path, key
                )
        pipeline = options.get("pipeline")
        if isinstance(pipeline, schema.Tune):
            return
        bad = isinstance(pipeline, bool) or not isinstance(pipeline, int) or pipeline < 1
        if pipeline is not None and bad:
            self.wrong(
                "M041", f"{name}: pipeline must be >= 1, found {pipeline!r}", *path, "pipeline"
            )
        if options.get("warpspecialize") and (not isinstance(pipeline, int) or pipeline < 2):
            self.wrong(
                "M042",
                f"{name}: warpspecialize needs pipeline >= 2, found {pipeline!r}",
                *path,
                "warpspecialize",
            )

    def words(self, what: str, value: Any, *path: str | int) -> dict[str, str]:
        found = self.table(what, value, *path)
        for key, item in found.items():
            if not isinstance(item, str):
                self.wrong("M000", f"{what}: {key} must be a name, found {item!r}", *path, key)
        return {k: v for k, v in found.items() if isinstance(v, str)}

    def listed(self, what: str, value: Any, *path: str | int) -> tuple[str, ...]:
        if value is not None and not (
            isinstance(value, list) and all(isinstance(v, str) for v in value)
        ):
            self.wrong("M000", f"{what} must be a list of texts, found {value!r}", *path)
            return ()
        return tuple(value or ())

    def tiles(self, name: str, value: Any, *path: str | int) -> dict[str, tuple[int | None, ...]]:
        found = {}
        for tensor, sizes in self.table(f"{name}: tiles", value, *path).items():
            good = isinstance(sizes, list) and all(
                s is None or (isinstance(s, int) and s > 0) for s in sizes
            )
            if not good:
                self.wrong(
                    "M000",
                    f"{name}: tiles of {tensor} must be a list of positive ints or null, "
                    f"found {sizes!r}",
                    *path,
                    tensor,
                )
                continue
            found[tensor] = tuple(sizes)
        return found

    def binding(self, name: str, leaf: str, value: Any, *path: str | int) -> schema.Binding:
        if isinstance(value, str):
            return schema.Binding(kernel=value)
        if isinstance(value, schema.Tune):
            return schema.Binding(kernel=value)
        data = self.keys(f"{name}: binding of {leaf}", value, ("kernel", "mems"), *path)
        return schema.Binding(
            kernel=data.get("kernel", "auto"),
            mems=self.words(f"{name}: mems of {leaf}", data.get("mems"), *path, "mems"),
        )

    def leaf_kernels(self, value: Any) -> dict[str, schema.LeafKernelFile]:
        found = {}
        for name, entry in self.table("leaf_kernels", value, "leaf_kernels").items():
            path = ("leaf_kernels", name)
            data = self.keys(f"leaf kernel {name}", entry, _KERNEL, *path)
            for key in ("dsl", "symbol", "source"):
                if key not in data:
                    self.wrong("M000", f"leaf kernel {name}: {key} is missing", *path, key=True)
            found[name] = schema.LeafKernelFile(
                name=name,
                dsl=str(data.get("dsl", "")),
                symbol=str(data.get("symbol", "")),
                source=str(data.get("source", "")),
                mems=self.words(f"leaf kernel {name}: mems", data.get("mems"), *path, "mems"),
                dtypes=self.listed(
                    f"leaf kernel {name}: dtypes", data.get("dtypes"), *path, "dtypes"
                ),
                requires=self.listed(
                    f"leaf kernel {name}: requires", data.get("requires"), *path, "requires"
                ),
                span=self.doc.span(*path),
            )
        return found

    def policy(self, data: dict[str, Any]) -> schema.Policy:
        body = self.keys("policies", data["policies"], _POLICIES, "policies")
        if "target" not in data:
            self.wrong("M000", "a policy file names its target:")
        if "grid" not in body:
            self.wrong("M000", "policies: grid is missing (the processor of the tiles)", "policies")
        raw = body.get("rules")
        if not isinstance(raw, list) or not raw:
            self.wrong("M000", "policies: rules must be a list of rules", "policies", "rules")
            raw = []
        options = {k: body[k] for k in schema.OPTION_KEYS if k in body}
        self.options("policies", options, "policies")
        return schema.Policy(
            file=self.doc.file,
            target=self.word("target", data.get("target")) or "",
            arch=self.word("arch", data.get("arch")),
            grid=str(body.get("grid", "")),
            grid_span=self.doc.span("policies", "grid"),
            locals=self.words(
                "policies: locals",
                self.keys(
                    "policies: locals", body.get("locals"), schema.LOCALS, "policies", "locals"
                ),
                "policies",
                "locals",
            ),
            halo=str(body.get("halo", "")),
            rules=tuple(self.rule(i, entry) for i, entry in enumerate(raw)),
            options=options,
            deterministic=self.deterministic(body.get("deterministic")),
            constraints=self.constraints(data.get("constraints")),
            smaller=self.smaller(body.get("smaller")),
            target_span=self.doc.span("target"),
            spans={p[1:]: s for p, s in self.doc.spans.items() if p[:1] == ("policies",)},
        )

    def deterministic(self, value: Any) -> str:
        if value is not None:
            what = "policies: deterministic"
            self.among(what, value, schema.DETERMINISTIC, "policies", "deterministic")
        return str(value or "")

    def smaller(self, value: Any) -> tuple[dict[str, int], ...]:
        path = ("policies", "smaller")
        if value is not None and not isinstance(value, list):
            self.wrong("M000", "policies: smaller must be a list of caps", *path)
            return ()
        found = []
        for i, entry in enumerate(value or ()):
            caps = self.keys(f"smaller {i + 1}", entry, CAPPED, *path, i)
            for role, cap in caps.items():
                if isinstance(cap, bool) or not isinstance(cap, int) or cap < 1:
                    self.wrong(
                        "M000",
                        f"smaller {i + 1}: {role} must be a whole number above 0, found {cap!r}",
                        *path,
                        i,
                        role,
                    )
            found.append({r: c for r, c in caps.items() if isinstance(c, int) and c > 0})
        return tuple(found)

    def rule(self, i: int, entry: Any) -> schema.Rule:
        path = ("policies", "rules", i)
        data = self.keys(f"rule {i + 1}", entry, _RULE, *path)
        match = self.keys(
            f"rule {i + 1}: match",
            data.get("match"),
            ("primitive", "dtype", "when"),
            *path,
            "match",
        )
        options = {k: data[k] for k in schema.OPTION_KEYS if k in data}
        self.options(f"rule {i + 1}", options, *path)

        def listed(key: str, default: str | None = None) -> tuple[str, ...]:
            value = match.get(key, default)
            items = value if isinstance(value, list) else [value]
            return tuple(str(v) for v in items if v is not None)

        found = {"primitive": listed("primitive", "*"), "dtype": listed("dtype")}
        for key, words in (("primitive", (*PRIMITIVE_NAMES, "*")), ("dtype", tuple(DTYPES))):
            for at, word in enumerate(found[key]):
                self.among(f"rule {i + 1}: {key}", word, words, *path, "match", key, at)
        for at, text in enumerate(listed("when")):
            self.expression(text, _WHEN_NAMES, *path, "match", "when", at)
        return schema.Rule(
            primitives=found["primitive"],
            dtypes=found["dtype"],
            when=listed("when"),
            kernel=data.get("kernel", "auto"),
            mems=self.words(
                f"rule {i + 1}: mems",
                self.keys(f"rule {i + 1}: mems", data.get("mems"), schema.OPERANDS, *path, "mems"),
                *path,
                "mems",
            ),
            tiles=self.sizes(i, data.get("tiles"), *path, "tiles"),
            options=options,
            span=self.doc.span(*path),
        )

    def sizes(self, i: int, value: Any, *path: str | int) -> dict[str, Any]:
        """Return a rule's tiles: role -> int, expression or Tune."""
        found = self.keys(f"rule {i + 1}: tiles", value, schema.TILE_ROLES, *path)
        for role, size in found.items():
            text = size.default if isinstance(size, schema.Tune) else size
            if isinstance(text, str):
                self.expression(text, _SIZE_NAMES, *path, role)
            elif (
                isinstance(size, bool)
                or not isinstance(size, int | schema.Tune)
                or (isinstance(size, int) and size < 1)
            ):
                self.wrong(
                    "M000",
                    f"rule {i + 1}: {role} must be a size, an expression or a !tune, found {size!r}",
                    *path,
                    role,
                )
        return found
