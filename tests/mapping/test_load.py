"""Every mistake in a mapping file: code, place in the user's YAML, text, and all of them at once."""

from __future__ import annotations

import pytest

from septran.errors import MappingError
from septran.mapping.load import load_mapping
from septran.mapping.schema import ExplicitMapping, Policy, Tune
from septran.mapping.smaller import smaller
from septran.mapping.text import mapping_text
from tests.mapping.writing import marks, told, written

GOOD = """\
target: cpp
entrypoint: host
task_mappings:
  host: {task_name: gemm, proc: HOST, tunables: {block_size: 64}, calls: {gemm_tile: tile}}
  tile:
    task_name: gemm_tile
    proc: CORE
    mems: {acc: REGISTER}
    tiles: {A: [16, null]}
    pipeline: 2
    warpspecialize: true
    leaf_task_bindings:
      mma: {kernel: gemm_leaf_simd, mems: {A: SHARED, B: SHARED}}
      zero: auto
constraints:
  - block_size <= 128
"""
POLICY = """\
target: cpp
policies:
  grid: CORE
  halo: SHARED
  locals: {gemm.out: REGISTER, default: SHARED}
  pipeline: 2
  smaller: [{m: 64, pipeline: 1}, {m: 16, n: 32, k: 8}]
  rules:
    - match: {primitive: [gemm, gemm_acc], dtype: float16, when: ["m >= 16", "k % 8 == 0"]}
      kernel: gemm_leaf_simd
      mems: {a: SHARED, b: SHARED}
      tiles: {m: "min(512, extent)", n: 64, k: !tune {type: pow2, min: 16, max: 64}}
    - match: {primitive: "*"}
      tiles: {inner: 1024}
constraints: ["m <= 4"]
"""


WRONG = {
    "not a mapping": ("- a  # error: M000\n", ["holds task_mappings: or policies:"]),
    "neither form": (
        "taskmappings: {}  # error: M000 M001@taskmappings\n",
        ["neither task_mappings: nor policies: is given", "did you mean 'task_mappings'?"],
    ),
    "unknown key at the top": (
        GOOD.replace("constraints:", "constrains:  # error: M001@constrains"),
        ["the mapping file: unknown key 'constrains'; did you mean 'constraints'?"],
    ),
    "unknown key of an instance": (
        GOOD.replace("pipeline: 2", "pipline: 2  # error: M001@pipline").replace(
            "    warpspecialize: true\n", ""
        ),
        ["tile: unknown key 'pipline'; did you mean 'pipeline'?"],
    ),
    "unknown key of a binding": (
        GOOD.replace("      zero: auto", "      zero: {kernl: auto}  # error: M001@kernl"),
        ["tile: binding of zero: unknown key 'kernl'; did you mean 'kernel'?"],
    ),
    "missing keys": (
        "entrypoint: a\ntask_mappings:\n  a: {mems: {C: GLOBAL}}  # error: M000@a M000@a\n",
        ["a: task_name is missing", "a: proc is missing"],
    ),
    "an instance that is a list": (
        "entrypoint: a\ntask_mappings:\n  a: [1]  # error: M000@a M000@a M000@[\n",
        ["a must be a mapping, found list"],
    ),
    "a memory that is a number": (
        GOOD.replace("mems: {acc: REGISTER}", "mems: {acc: 3}  # error: M000@3"),
        ["tile: mems: acc must be a name, found 3"],
    ),
    "tiles": (
        GOOD.replace("tiles: {A: [16, null]}", "tiles: {A: [0, 4]}  # error: M000@["),
        ["tiles of A must be a list of positive ints or null, found [0, 4]"],
    ),
    "entrypoint": (
        GOOD.replace("entrypoint: host", "entrypoint: hots  # error: M002@hots"),
        ["entrypoint 'hots' is not in task_mappings; did you mean 'host'?", "['host', 'tile']"],
    ),
    "calls of nobody": (
        GOOD.replace(
            "calls: {gemm_tile: tile}}", "calls: {gemm_tile: tiles}}  # error: M006@tiles"
        ),
        ["host: calls maps 'gemm_tile' to 'tiles', which is no instance; did you mean 'tile'?"],
    ),
    "cycle": (
        GOOD.replace("    proc: CORE", "    proc: CORE\n    calls: {gemm: host}").replace(
            "calls: {gemm_tile: tile}}", "calls: {gemm_tile: tile}}  # error: M009"
        ),
        ["calls form a cycle: host -> tile -> host"],
    ),
    "pipeline 0": (
        GOOD.replace("pipeline: 2", "pipeline: 0  # error: M041@0").replace(
            "    warpspecialize: true\n", ""
        ),
        ["tile: pipeline must be >= 1, found 0"],
    ),
    "pipeline of a word": (
        GOOD.replace("pipeline: 2", "pipeline: deep  # error: M041@deep").replace(
            "    warpspecialize: true\n", ""
        ),
        ["tile: pipeline must be >= 1, found 'deep'"],
    ),
    "pipeline true": (
        GOOD.replace("pipeline: 2", "pipeline: true  # error: M041@true").replace(
            "    warpspecialize: true\n", ""
        ),
        ["tile: pipeline must be >= 1, found True"],
    ),
    "warpspecialize alone": (
        GOOD.replace("    pipeline: 2\n", "").replace(
            "warpspecialize: true", "warpspecialize: true  # error: M042@true"
        ),
        ["tile: warpspecialize needs pipeline >= 2, found None"],
    ),
    "constraints": (
        GOOD.replace("constraints:\n  - block_size <= 128", "constraints: 3  # error: M000@3"),
        ["constraints must be a list of expressions"],
    ),
    "leaf kernel": (
        GOOD
        + "leaf_kernels:\n  mine: {dsl: cpp, symbl: f}  # error: M000@mine M000@mine M001@symbl\n",
        ["leaf kernel mine: unknown key 'symbl'; did you mean 'symbol'?", "source is missing"],
    ),
    "policy keys": (
        POLICY.replace("  halo: SHARED", "  hallo: SHARED  # error: M001@hallo"),
        ["policies: unknown key 'hallo'; did you mean 'halo'?"],
    ),
    "rule keys": (
        POLICY.replace("      kernel: gemm_leaf_simd", "      kernels: x  # error: M001@kernels"),
        ["rule 1: unknown key 'kernels'; did you mean 'kernel'?"],
    ),
    "match keys": (
        POLICY.replace(
            'match: {primitive: "*"}', "match: {primitives: map}  # error: M001@primitives"
        ),
        ["rule 2: match: unknown key 'primitives'; did you mean 'primitive'?"],
    ),
    "no rules": (
        "target: cpp\npolicies:\n  grid: CORE\n  rules: []  # error: M000@[\n",
        ["rules must be a list of rules"],
    ),
    "several at once": (
        """\
        target: cpp
        entrypoint: hots  # error: M002@hots
        task_mappings:
          host: {task_name: gemm, proc: HOST, calls: {gemm_tile: tyle}}  # error: M006@tyle
          tile:
            task_name: gemm_tile
            proc: CORE
            pipline: 2  # error: M001@pipline
            pipeline: 0  # error: M041@0
            mems: {A: 3}  # error: M000@3
            tunables: {block: !tune {type: choice}, rows: !tune 4}  # error: M091@!tune M091
        """,
        ["did you mean 'tile'?"],
    ),
}


WRONG |= {
    "smaller is no list": (
        POLICY.replace(
            "smaller: [{m: 64, pipeline: 1}, {m: 16, n: 32, k: 8}]",
            "smaller: 3  # error: M000@3",
        ),
        ["smaller must be a list of caps"],
    ),
    "a cap on nothing": (
        POLICY.replace("k: 8}]", "kk: 8}]  # error: M001@kk"),
        ["smaller 2: unknown key 'kk'"],
    ),
    "a cap that caps nothing": (
        POLICY.replace("k: 8}]", "k: 0}]  # error: M000@0}"),
        ["smaller 2: k must be a whole number above 0, found 0"],
    ),
}


WRONG |= {
    "a tile role of nobody": (
        POLICY.replace("tiles: {inner: 1024}", "tiles: {outerr: 16}  # error: M001@outerr"),
        ["rule 2: tiles: unknown key 'outerr'; did you mean 'outer'?"],
    ),
    "an operand of nobody": (
        POLICY.replace(
            "mems: {a: SHARED, b: SHARED}", "mems: {a: SHARED, bb: SHARED}  # error: M001@bb"
        ),
        ["rule 1: mems: unknown key 'bb'"],
    ),
    "a use of nobody": (
        POLICY.replace("{gemm.out: REGISTER,", "{gemm.ou: REGISTER,").replace(
            "default: SHARED}", "default: SHARED}  # error: M001@gemm.ou"
        ),
        ["policies: locals: unknown key 'gemm.ou'; did you mean 'gemm.out'?"],
    ),
    "a primitive of nobody": (
        POLICY.replace(
            "[gemm, gemm_acc], dtype: float16, when", "[gemmm, gemm_acc], dtype: flaot16, when"
        ).replace('"k % 8 == 0"]}', '"k % 8 == 0"]}  # error: M017@gemmm M017@flaot16'),
        [
            "rule 1: primitive: 'gemmm' is unknown",
            "did you mean 'gemm'?",
            "did you mean 'float16'?",
        ],
    ),
    "an expression of nobody's names": (
        POLICY.replace('"min(512, extent)"', '"min(512, extnt)"')
        .replace('"m >= 16"', '"mm >= 16"')
        .replace('"k % 8 == 0"]}', '"k % 8 == 0"]}  # error: M062@"mm')
        .replace("max: 64}}", 'max: 64}}  # error: M062@"min'),
        ["unknown name 'extnt'", "did you mean 'extent'?", "unknown name 'mm'"],
    ),
    "a size that is none": (
        POLICY.replace("tiles: {inner: 1024}", "tiles: {inner: [1]}  # error: M000@["),
        ["rule 2: inner must be a size, an expression or a !tune, found [1]"],
    ),
    "math of nobody": (
        GOOD.replace("    pipeline: 2", "    math: tf23  # error: M017@tf23\n    pipeline: 2"),
        ["tile: math: 'tf23' is unknown; known: tf32, mma, wgmma, winograd; did you mean 'tf32'?"],
    ),
    "threads of a word": (
        GOOD.replace("    pipeline: 2", "    threads: many  # error: M000@many\n    pipeline: 2"),
        ["tile: threads must be a whole number, found 'many'"],
    ),
    "a tune with a key of nobody": (
        GOOD.replace(
            "block_size: 64}, calls: {gemm_tile: tile}}",
            "block_size: !tune {type: range, min: 1, max: 8, stpe: 2}}, calls: {gemm_tile: tile}}  # error: M091@!tune",
        ),
        ["has no 'stpe'; it has min, max, step; did you mean 'step'?"],
    ),
}


def test_the_names_of_primitives_are_the_languages():
    from septran.ir.nodes import PRIMITIVE_NAMES
    from septran.tasklang.primitives import PRIMITIVES

    assert tuple(PRIMITIVES) == PRIMITIVE_NAMES


@pytest.mark.parametrize("name", WRONG)
def test_code_place_and_text(name, tmp_path):
    text, texts = WRONG[name]
    path = written(tmp_path, text)
    with pytest.raises(MappingError) as caught:
        load_mapping(path)
    told(caught.value, path, marks(path))
    for piece in texts:
        assert piece in str(caught.value)


TUNES = {
    "{type: choice, values: [64, 128]}": (64, 128),
    "{type: choice, values: [gemm_leaf_simd, auto]}": ("gemm_leaf_simd", "auto"),
    "{type: range, min: 2, max: 5}": (2, 3, 4, 5),
    "{type: range, min: 16, max: 50, step: 16}": (16, 32, 48),
    "{type: pow2, min: 16, max: 100}": (16, 32, 64),
    "{type: pow2, min: 3, max: 4}": (4,),
}
BAD_TUNES = {
    "{values: [1]}": "!tune needs {type: choice|range|pow2",
    "7": "!tune needs {type: choice|range|pow2",
    "{type: choice}": "{type: choice} needs values",
    "{type: choice, values: []}": "{type: choice} needs values",
    "{type: chioce, values: [1]}": "did you mean 'choice'?",
    "{type: range, min: 4, max: 2}": "needs integers 1 <= min <= max",
    "{type: range, min: 1, max: 4, step: 0}": "needs step >= 1",
    "{type: pow2, min: 0, max: 4}": "needs integers 1 <= min <= max",
    "{type: pow2, min: 5, max: 7}": "no power of two between 5 and 7",
    "{type: pow2, min: a, max: 7}": "needs integers 1 <= min <= max",
}


@pytest.mark.parametrize("text", TUNES)
def test_tune_values(text, tmp_path):
    where = "tunables" if "auto" not in text else "binding"
    old, new = ("block_size: 64", f"block_size: !tune {text}")
    if where == "binding":
        old, new = "zero: auto", f"zero: !tune {text}"
    found = load_mapping(written(tmp_path, GOOD.replace(old, new)))
    value = (
        found.instances["host"].tunables["block_size"]
        if where == "tunables"
        else found.instances["tile"].leaf_task_bindings["zero"].kernel
    )
    assert isinstance(value, Tune)
    assert value.values == TUNES[text]
    assert load_mapping(written(tmp_path, mapping_text(found))) != found or where == "tunables"


@pytest.mark.parametrize("text", BAD_TUNES)
def test_bad_tunes(text, tmp_path):
    line = f"block_size: !tune {text}}}, calls: {{gemm_tile: tile}}}}  # error: M091@!tune"
    path = written(tmp_path, GOOD.replace("block_size: 64}, calls: {gemm_tile: tile}}", line))
    with pytest.raises(MappingError) as caught:
        load_mapping(path)
    told(caught.value, path, marks(path))
    assert BAD_TUNES[text] in str(caught.value)


def test_an_explicit_mapping_in_full(tmp_path):
    found = load_mapping(written(tmp_path, GOOD))
    assert isinstance(found, ExplicitMapping)
    tile = found.instances["tile"]
    assert (found.target, found.entrypoint, tile.proc) == ("cpp", "host", "CORE")
    assert tile.tiles == {"A": (16, None)}
    assert tile.options == {"pipeline": 2, "warpspecialize": True}
    assert tile.leaf_task_bindings["mma"].mems == {"A": "SHARED", "B": "SHARED"}
    assert tile.leaf_task_bindings["zero"].kernel == "auto"
    assert [text for text, _ in found.constraints] == ["block_size <= 128"]


def test_what_is_printed_is_read_back(tmp_path):
    from dataclasses import replace

    def plain(m):
        return replace(
            m,
            file="",
            instances={n: replace(i, spans={}, key_spans={}) for n, i in m.instances.items()},
            constraints=tuple((t, None) for t, _ in m.constraints),
        )

    text = GOOD.replace("block_size: 64", "block_size: !tune {type: choice, values: [64, 128]}")
    found = load_mapping(written(tmp_path, text))
    again = load_mapping(written(tmp_path, mapping_text(found, comment="printed")))
    assert plain(again) == plain(found)


def test_a_policy_in_full(tmp_path):
    found = load_mapping(written(tmp_path, POLICY))
    assert isinstance(found, Policy)
    gemm, rest = found.rules
    assert (found.target, found.grid, found.halo) == ("cpp", "CORE", "SHARED")
    assert found.locals == {"gemm.out": "REGISTER", "default": "SHARED"}
    assert found.options == {"pipeline": 2}
    assert gemm.primitives == ("gemm", "gemm_acc")
    assert gemm.dtypes == ("float16",)
    assert gemm.when == ("m >= 16", "k % 8 == 0")
    assert gemm.tiles["m"] == "min(512, extent)" and gemm.tiles["n"] == 64
    assert isinstance(gemm.tiles["k"], Tune) and gemm.tiles["k"].values == (16, 32, 64)
    assert rest.primitives == ("*",) and rest.dtypes == () and rest.kernel == "auto"
    assert found.smaller == ({"m": 64, "pipeline": 1}, {"m": 16, "n": 32, "k": 8})


def test_smaller_sizes_of_a_policy(tmp_path):
    policy = load_mapping(written(tmp_path, POLICY.replace("    - match: {primitive: \"*\"}", "      pipeline: 3\n      warpspecialize: true\n    - match: {primitive: \"*\"}")))  # fmt: skip
    first, second = smaller(policy)
    assert first.rules[0].tiles["m"] == "min(min(512, extent), 64)"
    assert first.rules[0].tiles["n"] == 64
    assert first.rules[0].options == {"pipeline": 1}
    assert first.options == {"pipeline": 1}
    assert second.rules[0].tiles["n"] == 32
    assert second.rules[0].tiles["k"] == policy.rules[0].tiles["k"]  # a !tune stays the tuner's
    assert second.rules[0].options == {"pipeline": 3, "warpspecialize": True}
    assert second.rules[1] == policy.rules[1]
    assert list(smaller(first)) == []
