"""What is printed for a TPU: blocks, the grid, masks, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from septran import backends
from septran.errors import MappingError, SeptranError
from septran.kernel import Kernel, leaf_specs
from septran.passes.run import lower
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.leaf_case import as_in_the_kernel, leaf_cases, unused_operands, without_steps
from tests.cli.conftest import septran

__all__ = ["septran"]


def kernel(op: str, dtype: str = "float32", arch: str = "v5e", **dims: int) -> Kernel:
    plan = resolve(GenRequest(op=op, backend="pallas_tpu", arch=arch, dtype=dtype, dims=dims))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return plan.backend.emit(lowered.program, leaves)


def test_the_loop_over_k_is_the_last_dim_of_the_grid() -> None:
    text = kernel("gemm", M=512, N=512, K=2048).source
    assert "grid=(2, 2, 4)" in text
    assert "pl.BlockSpec((256, 512), lambda i0, i1, k0: (i0, k0))" in text
    assert "pl.BlockSpec((512, 256), lambda i0, i1, k0: (k0, i1))" in text
    assert 'dimension_semantics=("parallel", "parallel", "arbitrary")' in text
    assert "@pl.when(k0 == 0)" in text and "@pl.when(k0 == 3)" in text


def test_float32_products_say_highest_and_ragged_k_is_masked_on_both_sides() -> None:
    text = kernel("gemm", M=512, N=512, K=700).source
    assert "lax.Precision.HIGHEST if a.dtype == jnp.float32" in text
    leaf = text[text.index("def leaf_mma") : text.index("def leaf_store")]
    assert leaf.count("jnp.where(") == 2


def test_blocks_that_no_tpu_takes_are_held_whole() -> None:
    """32 columns are no multiple of 128; the head of attention is 64 wide and whole."""
    text = kernel("attention", S=512, D=64).source
    assert "pl.BlockSpec((1, 256, 64)" in text


def test_quotients_do_not_ask_for_signs() -> None:
    """jnp's `//` lowers to a sign, which JAX only lowers on a machine with a TPU; each quotient is proven not to be negative."""
    text = kernel("attention_causal", Z=1, S=600).source
    assert "lax.div(i1 * 256 + " in text and " // " not in text


def softmax_alone(case: int) -> str:
    """Return the kernel of softmax's leaf alone: at its full tile, or a number of rows less."""
    plan = resolve(GenRequest(op="softmax", backend="pallas_tpu", dims={"M": 19, "N": 67}))
    lowered = lower_plan(plan)
    leaf = next(iter(library_leaves(plan.backend, lowered.program, lowered.bound.mapping).values()))
    unused = unused_operands(lowered.program, leaf.spec)
    alone = leaf_cases(leaf.spec, machine=lowered.program.machine)[case].program
    held = as_in_the_kernel(lower(alone, plan.backend.passes), leaf.spec)
    program = without_steps(held, unused)
    spec = leaf_specs(program)[0][1]
    source = leaf.source.replace(leaf.spec.symbol, spec.symbol)
    return plan.backend.emit(program, {spec.key: replace(leaf, spec=spec, source=source)}).source


def test_a_leaf_alone_need_not_give_its_steps() -> None:
    """What only holds a step in between is not copied out when a leaf is judged alone, so no kernel makes it."""
    text = softmax_alone(0)
    entry = text[text.index("def entry") :]
    assert "return (Y, t, m, s,)" in entry
    for name, shape in (("t", "(16, 67)"), ("m", "(16, 1)"), ("s", "(16, 1)")):
        assert f"    {name} = jnp.full({shape}, jnp.nan, jnp.float32)\n" in entry


def test_a_kernel_brings_the_helpers_that_only_it_calls() -> None:
    """The rows that are written are a mask of the kernel's, whatever the leaf calls."""
    text = softmax_alone(1)
    leaf = text[text.index("def leaf_") : text.index("def leaf_softmax_leaf_kernel")]
    assert "st_index(" not in leaf and "jnp.where((st_index((16, 67), 0) < 11)" in text
    assert "def st_index(" in text


def test_tall_reductions_take_smaller_blocks() -> None:
    assert "pl.BlockSpec((2048, 512)" in kernel("col_sum", M=30_000, N=1024).source


def test_padding_is_put_around_the_tensor() -> None:
    text = kernel("conv2d_stride2").source
    assert "jnp.pad(X, ((0, 0), (1, 0), (1, 0), (0, 0)))" in text
    assert "stride=2" in text


def test_a_vector_is_a_row() -> None:
    text = kernel("gelu", N=3000).source
    assert ".reshape((1, 3000))" in text and ".reshape((3000,))" in text


@pytest.mark.parametrize("arch", backends.get("pallas_tpu").arches)
def test_every_generation_prints(arch: str) -> None:
    assert f"pallas_tpu {arch}" in kernel("softmax", arch=arch).source


def test_the_text_is_the_same_each_time() -> None:
    assert kernel("layernorm") == kernel("layernorm")


def test_int64_is_refused() -> None:
    with pytest.raises(SeptranError) as error:
        kernel("cross_entropy")
    assert error.value.codes == ("M172",) and "int64" in str(error.value)


def test_vector_memory_has_an_end() -> None:
    with pytest.raises(MappingError) as error:
        kernel("layernorm", M=64, N=400_000)
    assert error.value.codes == ("M011",)
    assert "vector memory needs" in str(error.value) and "the limit is 16777216" in str(error.value)


def test_without_jax_the_verdict_is_unavailable_and_names_the_command(
    septran, fresh_home: object
) -> None:
    found = septran("gen", "--op", "softmax", "--backend", "pallas_tpu")
    assert found.code == 3
    assert "septran doctor --install pallas_tpu" in found.err + found.out


def test_float16_is_refused(septran) -> None:
    found = septran("gen", "--op", "gemm", "--backend", "pallas_tpu", "--dtype", "float16")
    assert found.code == 2 and "bfloat16" in found.err
