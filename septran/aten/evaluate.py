"""Run an exported graph node by node on torch: the module itself is what its kernels are judged against.

Only operators of an allow-list run, none of the user's code. Float casts keep the dtype that the judge
computes in (float64), so that a half-precision module has one meaning.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from septran.aten.graph import Dtype, Graph, Node, Ref
from septran.aten.inside import INSIDE, cancelled
from septran.aten.moments import MOMENTS, moments
from septran.aten.scalars import as_taken, dtypes_of
from septran.aten.sums import root_of_squares
from septran.ir.dtypes import FLOATS
from septran.rounding import Rounding

if TYPE_CHECKING:
    import torch

ALLOWED = frozenset(
    """
    abs acos acosh add addbmm addcdiv addcmul addmm addmv alias all amax amin any arange argmax argmin asin
    atan avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    adaptive_max_pool2d baddbmm batch_norm _native_batch_norm_legit_no_training _native_batch_norm_legit_functional
    bitwise_and broadcast_tensors bitwise_not bitwise_or bmm cat ceil celu chunk clamp clamp_max clamp_min clone constant_pad_nd
    contiguous conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution copy cos
    cosh cummax cumprod cumsum detach diagonal div dot dropout einsum elu embedding empty eq erf erfc exp exp2
    expand expand_as expm1 fill flatten flip floor floor_divide fmod full full_like gather ge gelu getitem glu
    group_norm gru gt hardshrink hardsigmoid hardswish hardtanh index index_add index_put index_select
    instance_norm isinf isnan le leaky_relu lerp lift_fresh_copy linear log log10 log1p log2 log_sigmoid
    log_softmax logical_and logical_not logical_or logical_xor logsumexp lstm lt layer_norm masked_fill
    masked_select matmul max max_pool1d max_pool2d max_pool3d max_pool2d_with_indices maximum mean min minimum
    mish mm movedim mul mv native_group_norm native_layer_norm ne neg new_full new_ones new_zeros norm
    ones ones_like pad permute pixel_shuffle pixel_unshuffle pow prelu prod reciprocal relu relu6 remainder
    repeat repeat_interleave reshape rms_norm roll round rrelu rsqrt rsub scalar_tensor
    scaled_dot_product_attention scatter scatter_add scatter_reduce select select_scatter selu sgn sigmoid
    sign silu sin sinh slice slice_scatter softmax softplus softshrink softsign split split_with_sizes
    sqrt square squeeze stack std sub sum t tan tanh threshold tile topk transpose tril triu trunc
    type_as unbind unflatten unfold unsafe_view unsqueeze upsample_bilinear2d upsample_nearest1d
    upsample_nearest2d upsample_nearest3d var var_mean vector_norm linalg_vector_norm view view_as where zeros
    zeros_like _log_softmax _softmax _to_copy _unsafe_view to relu_ l1_loss mse_loss smooth_l1_loss huber_loss
    nll_loss cross_entropy_loss kl_div binary_cross_entropy cosine_similarity hinge_embedding_loss
    triplet_margin_loss rnn_tanh rnn_relu sort argsort
    __and__ __or__ __xor__ bitwise_xor nan_to_num _weight_norm binary_cross_entropy_with_logits margin_ranking_loss
    pairwise_distance cdist _cdist_forward nll_loss_nd nll_loss2d outer ger linalg_multi_dot chain_matmul bilinear
    diag diag_embed im2col adaptive_max_pool1d adaptive_max_pool3d lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
    take_along_dim one_hot logcumsumexp index_copy kthvalue msort __lshift__ __rshift__
    bitwise_left_shift bitwise_right_shift swapaxes swapdims narrow
    mT mH adjoint numpy_T
    linalg_inv linalg_inv_ex linalg_det linalg_slogdet linalg_cholesky linalg_cholesky_ex cholesky_solve linalg_solve
    linalg_solve_ex linalg_solve_triangular linalg_qr linalg_matrix_exp linalg_matrix_power linalg_cross cross linalg_norm
    linalg_matrix_norm linalg_pinv linalg_eigvalsh linalg_svdvals linalg_vecdot linalg_tensorsolve inverse det logdet
    slogdet cholesky cholesky_inverse triangular_solve matrix_exp matrix_power linalg_lu_solve trace kron vander
    linalg_vander cov corrcoef block_diag cartesian_prod tensordot inner vdot
    fft_fft fft_ifft fft_rfft fft_irfft fft_hfft fft_ihfft fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2 fft_fftn fft_ifftn
    fft_rfftn fft_irfftn fft_fftshift fft_ifftshift fft_fftfreq fft_rfftfreq stft istft real imag conj _conj resolve_conj
    resolve_neg _neg_view view_as_real view_as_complex complex polar angle hann_window hamming_window blackman_window
    grid_sampler grid_sampler_2d grid_sampler_3d affine_grid_generator upsample_bicubic2d upsample_linear1d
    upsample_trilinear3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa reflection_pad1d reflection_pad2d reflection_pad3d
    replication_pad1d replication_pad2d replication_pad3d col2im max_unpool2d lp_pool1d lp_pool2d
    channel_shuffle local_response_norm
    lgamma digamma polygamma erfinv special_i0 special_i0e special_i1 special_i1e special_ndtri special_ndtr
    special_log_ndtr special_entr special_xlogy special_xlog1py special_zeta special_gammaln special_digamma special_psi
    special_erfcx special_erfinv special_gammainc special_gammaincc special_bessel_j0 special_bessel_j1 special_sinc
    special_multigammaln special_log_softmax special_softmax i0 mvlgamma igamma igammac xlogy sinc logit atan2 arctan2
    hypot asinh atanh ldexp frexp copysign nextafter signbit isfinite isposinf isneginf isclose frac float_power gcd lcm
    logaddexp logaddexp2 fmax fmin heaviside deg2rad rad2deg nansum nanmean nanmedian logsumexp dist aminmax cummin
    renorm trapezoid trapz cumulative_trapezoid diff gradient histc bincount bucketize searchsorted median mode
    count_nonzero std_mean rot90 fliplr flipud eye linspace logspace tri tril_indices triu_indices meshgrid
    index_fill index_reduce masked_scatter put take diagonal_scatter as_strided as_strided_copy
    column_stack hstack vstack dstack hsplit vsplit dsplit tensor_split ctc_loss poisson_nll_loss gaussian_nll_loss
    multi_margin_loss multilabel_margin_loss soft_margin_loss cosine_embedding_loss multilabel_soft_margin_loss
    empty_like new_empty embedding_bag max_unpool3d pdist max_pool3d_with_indices
    _unsafe_index _unsafe_index_put _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
    _int_mm as_strided_scatter
    """.split()
)
"""Names of ATen operators (without overload) that may run in the judging process."""


EXACT = frozenset(
    """
    abs alias all amax amin any arange argmax argmin broadcast_tensors cat ceil chunk clamp clamp_max clamp_min clone
    constant_pad_nd contiguous copy cummax detach diag diag_embed diagonal dropout embedding empty eq expand expand_as
    fill flatten flip floor full full_like gather ge getitem gt hardtanh im2col index index_copy index_select isinf isnan
    le lift_fresh_copy lt masked_fill masked_select max max_pool1d max_pool2d max_pool3d max_pool2d_with_indices
    max_pool3d_with_indices max_unpool2d max_unpool3d masked_scatter cummin adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d maximum min minimum movedim nan_to_num narrow ne neg
    new_full new_ones new_zeros one_hot ones ones_like pad permute pixel_shuffle pixel_unshuffle relu relu6 relu_ repeat
    repeat_interleave reshape roll round scalar_tensor scatter select select_scatter sgn sign slice slice_scatter sort
    argsort kthvalue msort median nanmedian mode split split_with_sizes squeeze stack swapaxes swapdims t take_along_dim threshold tile to topk
    transpose tril triu trunc type_as unbind unflatten unfold unsafe_view unsqueeze upsample_nearest1d upsample_nearest2d
    upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d view view_as where zeros zeros_like _to_copy _unsafe_view
    _int_mm as_strided_scatter
    """.split()
)
"""Names of operators whose results are elements of what they read, or whole numbers: they round nothing."""


def base_name(op: str) -> str:
    """Return the operator's name without namespace and overload."""
    parts = op.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "aten" else parts[0]


def allowed(op: str) -> bool:
    """Return whether the judging process may run this operator."""
    # float64 does not have the bits that view.dtype takes
    known = op.startswith("aten.") and base_name(op) in ALLOWED
    return op == "getitem" or (known and op != "aten.view.dtype")


def run_graph(
    graph: Graph,
    values: Mapping[str, torch.Tensor],
    *,
    dtype: torch.dtype | None = None,
    look: Callable[[str, Any], None] | None = None,
    forced: Mapping[str, Callable[[Mapping[str, Any]], Any]] | None = None,
    rounded: Rounding | None = None,
    own: bool = False,
) -> tuple[torch.Tensor, ...]:
    """Return the graph's outputs from its inputs by name.

    dtype: that of all floats (default: the first float input's). own: each node's own instead, as the module has it. look: called with each node's result.
    forced: node -> what makes its result of its arguments instead. rounded: each result that an
    operator rounds is changed so, but not on its way from constants to a whole number; `of_terms`, each sum.

    Raises:
        ValueError: an operator that is not allowed.
    """
    import torch

    widest = dtype or next(
        (t.dtype for t in values.values() if t.is_floating_point()), torch.float64
    )
    wide = None if own else widest
    env: dict[str, Any] = dict(values)
    plan = _plan_of(_ByIdentity(graph))
    change = rounded.changes() if rounded and not rounded.of_terms else None
    shift = rounded.shifts() if rounded and rounded.of_terms else None
    unit = rounded.unit if rounded else 0.0
    settled = _settled(plan, set(values)) if rounded else frozenset()
    forced = forced or {}
    with torch.no_grad():
        for step in plan.steps:
            node = step.node
            if node.name in forced:
                env[node.name] = forced[node.name](
                    {k: _reader(v)(env, wide) for k, v in node.named.items()}
                )
            else:
                env[node.name] = step.run(env, wide)
            if change and not step.exact and node.name not in settled:
                env[node.name] = _moved(env[node.name], change)
                if rounded and base_name(node.op) in INSIDE:
                    given = {k: _reader(v)(env, wide) for k, v in node.named.items()}
                    inner = cancelled(base_name(node.op), given, rounded.size)
                    env[node.name] = env[node.name] + (change(inner) - inner)
            elif shift and not step.exact and node.name not in settled:
                scale = root_of_squares(node, base_name(node.op), step.run, env, wide, unit)
                if scale is not None:
                    env[node.name] = env[node.name] + shift(scale)
                elif base_name(node.op) in MOMENTS:
                    given = {k: _reader(v)(env, wide) for k, v in node.named.items()}
                    env[node.name] = env[node.name] + moments(
                        base_name(node.op), given, shift, unit
                    )
            if look is not None:
                look(node.name, env[node.name])
            for name in step.drops:
                env.pop(name, None)
    return tuple(env[name] for name in plan.results)


@dataclass(frozen=True, slots=True)
class _ByIdentity:
    """A graph as a key: one is looked up thousands of times and compared never."""

    graph: Graph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.graph is self.graph

    def __hash__(self) -> int:
        return id(self.graph)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A node and what is found out about it once. exact: it rounds nothing; refs: what it reads; drops: what nobody reads behind it."""

    node: Node
    run: Callable[[Mapping[str, Any], torch.dtype | None], Any]
    exact: bool
    refs: frozenset[str]
    drops: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The nodes that the results need, in order."""

    steps: tuple[_Step, ...]
    results: tuple[str, ...]


@functools.lru_cache(maxsize=4)
def _plan_of(key: _ByIdentity) -> _Plan:
    """Return how to run a graph: the judge runs one hundreds of times, and a node may take less time than looking at it."""
    results = tuple(o.value.name for o in key.graph.outputs if isinstance(o.value, Ref))
    nodes = key.graph.needed(results)
    dtypes = dtypes_of(key.graph)
    reads = [frozenset(node.refs()) for node in nodes]
    last: dict[str, int] = {}
    for at, refs in enumerate(reads):
        last.update(dict.fromkeys(refs, at))
    return _Plan(
        steps=tuple(
            _Step(
                node=node,
                run=runner(as_taken(node, dtypes)),
                exact=base_name(node.op) in EXACT,
                refs=refs,
                drops=tuple(n for n in refs if last[n] == at and n not in results),
            )
            for at, (node, refs) in enumerate(zip(nodes, reads, strict=True))
        ),
        results=results,
    )


def _moved(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    import torch

    if isinstance(value, tuple | list):
        return type(value)(_moved(v, change) for v in value)
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_complex():  # each part by itself, as it is computed
        parts = torch.view_as_real(value.resolve_conj())
        return torch.view_as_complex(change(parts).contiguous())
    if not value.is_floating_point():
        return value
    return change(value)


def _settled(plan: _Plan, given: set[str]) -> frozenset[str]:
    """Return the nodes that are computed of no input and end in whole numbers, such as positions: these are right or wrong."""
    for step in plan.steps:
        if not given.isdisjoint(step.refs):
            given.add(step.node.name)
    found: set[str] = set()
    for step in reversed(plan.steps):
        name, result = step.node.name, step.node.results[0]
        whole = result is not None and result.dtype not in FLOATS
        if name not in given and (whole or name in found):
            found.update({name, *step.refs})
    return frozenset(found)


def _reader(v: Any) -> Callable[[Mapping[str, Any], torch.dtype | None], Any]:
    """Return what gives an argument its value: values by name, and the dtype that floats have -> value."""
    match v:
        case Ref(name):
            return lambda env, wide: env[name]
        case Dtype(name):
            return lambda env, wide: _wide_kind(name, wide)
        case tuple():
            inner = [_reader(i) for i in v]
            return lambda env, wide: [read(env, wide) for read in inner]
    return lambda env, wide: v


def runner(node: Node) -> Callable[[Mapping[str, Any], torch.dtype | None], Any]:
    """Return what computes a node: values by name, and the dtype that floats have -> its result.

    It raises ValueError for an operator that is not allowed when it is called, as a graph may hold one that nobody runs.
    """
    if not allowed(node.op):
        return _raiser(f"operator {node.op} is not on the judge's list")
    if node.op == "getitem":
        source, index = (_reader(a) for a in node.args)
        return lambda env, wide: source(env, wide)[index(env, wide)]
    _, name, overload = node.op.split(".")
    read = {k: _reader(v) for k, v in node.named.items()}

    def given(env: Mapping[str, Any], wide: torch.dtype | None) -> dict[str, Any]:
        return {k: value(env, wide) for k, value in read.items()}

    if name in _VIEWS:  # memory formats are not kept, so what was one view may need a copy
        return lambda env, wide: read["self"](env, wide).reshape(read["size"](env, wide))
    if name == "topk":
        return lambda env, wide: _topk(*(read[k](env, wide) for k in _TOPK))
    if name == "_int_mm":
        return lambda env, wide: _whole_product(read["self"](env, wide), read["mat2"](env, wide))
    if name in _ORDERS:
        return lambda env, wide: _ordered(name, given(env, wide))
    if name in ("median", "nanmedian"):
        return lambda env, wide: _middle(name, given(env, wide))
    if name == "mode":
        return lambda env, wide: _most_frequent(given(env, wide))
    if name in _SEARCHES:
        return lambda env, wide: _searched(node, given(env, wide))
    if name in _MEANS:
        return lambda env, wide: _with_mean(_MEANS[name], given(env, wide))
    if node.args:
        return _raiser(f"{node.op} has unnamed arguments")
    return _plain_runner(node, name, overload)


def _whole_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the product of bytes in int32, of which too large sums keep the low bits.

    float64 holds every sum of fewer than 2**39 terms; torch's own kernel depends on the processor, and is slow on many.
    """
    import torch

    return (a.double() @ b.double()).to(torch.int64).to(torch.int32)


def _raiser(why: str) -> Callable[[Mapping[str, Any], torch.dtype | None], Any]:
    def refuse(env: Mapping[str, Any], wide: torch.dtype | None) -> Any:
        raise ValueError(why)

    return refuse


def _plain_runner(
    node: Node, name: str, overload: str
) -> Callable[[Mapping[str, Any], torch.dtype | None], Any]:
    """Return what calls torch's operator of that name with a node's arguments."""
    import torch

    fn: Callable[..., Any] = getattr(getattr(torch.ops.aten, name), overload)
    named = dict(node.named)
    plain = [  # a text of a graph leaves out what is None
        _reader(named.pop(a.name) if a.name in named else a.default_value)
        for a in fn._schema.arguments  # type: ignore[attr-defined]
        if not a.kwarg_only
    ]
    rest = {k: _reader(v) for k, v in named.items() if v is not None and k not in _PLACES}
    made = node.results[0]
    if name in _MAKERS and made is not None:
        rest["dtype"] = _reader(Dtype(made.dtype))

    def run(env: Mapping[str, Any], wide: torch.dtype | None) -> Any:
        found = fn(
            *[read(env, wide) for read in plain], **{k: read(env, wide) for k, read in rest.items()}
        )
        if name in _UNSET:  # any numbers are right there; these are everybody's
            found = found.zero_()
        if isinstance(found, torch.Tensor) and (found.is_conj() or found.is_neg()):
            return found.resolve_conj().resolve_neg()  # what torch would do when somebody reads it
        return found

    return run


def _wide_kind(name: str, wide: torch.dtype | None) -> torch.dtype:
    """Return the dtype that the judge computes a graph's dtype in: floats and complex numbers are as wide as `wide`."""
    import torch

    if wide is None:
        own: torch.dtype = getattr(torch, name)
        return own
    if name.startswith("complex"):
        return wide.to_complex()
    found: torch.dtype = wide if name in FLOATS else getattr(torch, name)
    return found


def _dtype_of(node: Node) -> str:
    """Return the dtype of a node's (first) result."""
    return node.results[0].dtype if node.results[0] is not None else ""


def _topk(x: torch.Tensor, k: int, dim: int, largest: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest; of equal ones the first, an order that torch leaves open."""
    import torch

    values, places = torch.sort(x, dim=dim, descending=largest, stable=True)
    if not x.dim():
        return values, places
    return values.narrow(dim, 0, k), places.narrow(dim, 0, k)


def _ordered(name: str, given: Mapping[str, Any]) -> Any:
    """Return a row in order; equal elements keep theirs, an order that torch leaves open."""
    import torch

    dim = 0 if name == "msort" else given.get("dim", -1)
    down = bool(given.get("descending"))
    found = torch.sort(given["self"], dim=dim, descending=down, stable=True)
    if name == "kthvalue":
        kept = tuple(t.narrow(dim, given["k"] - 1, 1) if t.dim() else t for t in found)
        return kept if given.get("keepdim") else tuple(t.squeeze(dim) for t in kept)
    return {"sort": tuple(found), "argsort": found[1], "msort": found[0]}[name]


def _middle(name: str, given: Mapping[str, Any]) -> Any:
    """Return the lower of the two in the middle and where it is; of equals the first in order, which torch leaves open.

    A line with NaN has NaN, and its first place; of nanmedian, one with nothing else.
    """
    import torch

    if given.get("dim") is None:
        return getattr(torch, name)(given["self"])
    x, dim = given["self"], given["dim"]
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, places = torch.sort(x, dim=dim, stable=True)
    numbers = (x == x).sum(dim, keepdim=True)
    at = (numbers - 1).clamp_min(0) // 2
    if name == "median":
        at = torch.where(numbers < x.shape[dim], numbers, at)
    found = (values.gather(dim, at), places.gather(dim, at))
    return found if given.get("keepdim") else tuple(t.squeeze(dim) for t in found)


def _most_frequent(given: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the value that a line has most often, the smallest of several, and the last place where it is.

    torch leaves open which place it is, and what NaN does: it equals nothing, so it is found in lines of nothing else.
    """
    import torch

    x, dim = given["self"], given.get("dim", -1)
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values = torch.sort(x, dim=dim, stable=True)[0].transpose(dim, -1).contiguous()
    first = torch.searchsorted(values, values)
    often = torch.searchsorted(values, values, right=True) - first
    often = often.masked_fill(values != values, 0)
    at = often.argmax(-1, keepdim=True)  # the first of equals, so the smallest
    value = values.gather(-1, at).transpose(dim, -1)
    own = (x == value) | (value != value)
    here = torch.arange(x.shape[dim]).reshape(
        [-1 if d == dim % x.dim() else 1 for d in range(x.dim())]
    )
    found = (value, torch.where(own, here, -1).amax(dim, keepdim=True))
    return found if given.get("keepdim") else tuple(t.squeeze(dim) for t in found)


def _searched(node: Node, given: Mapping[str, Any]) -> torch.Tensor:
    """Return how many boundaries come before each value.

    Where they rise, as torch wants it, that is where torch's search ends; in other rows torch leaves open where it does.
    """
    import torch

    borders = given.get("sorted_sequence", given.get("boundaries"))
    if (sorter := given.get("sorter")) is not None:
        borders = borders.gather(-1, sorter)
    right = bool(given.get("right")) or given.get("side") == "right"
    x = torch.as_tensor(given["self"], dtype=borders.dtype).unsqueeze(-1)
    found = torch.zeros(x.shape[:-1], dtype=torch.int64)
    # a line of boundaries for each value may be more than memory holds
    for some in borders.split(max(1, _AT_ONCE // max(1, x.numel())), dim=-1):
        y = some if borders.dim() == 1 else some.unsqueeze(-2)
        found += ((y <= x if right else y < x) | x.isnan()).sum(-1)
    return found.to(torch.int32) if _dtype_of(node) == "int32" else found


def _with_mean(name: str, given: dict[str, Any]) -> tuple[Any, Any]:
    """Return a variance (or its root) and the mean, each by its own operator.

    torch's operator for both updates the mean as it walks the row: of one with an infinity it is NaN or infinite, as the
    elements happen to lie. The mean itself is infinite.
    """
    import torch

    x, dim = given["self"], given.get("dim")
    kept = bool(given.get("keepdim"))
    correction = given.get("correction")
    if correction is None:
        correction = 0 if given.get("unbiased") is False else 1
    spread = getattr(torch, name)(x, dim, correction=correction, keepdim=kept)
    return spread, torch.mean(x, dim, keepdim=kept)


_MEANS = {"var_mean": "var", "std_mean": "std"}
_TOPK = ("self", "k", "dim", "largest")
_SEARCHES = ("searchsorted", "bucketize")
_AT_ONCE = 1 << 24
_ORDERS = ("sort", "argsort", "msort", "kthvalue")
_VIEWS = ("view", "_unsafe_view", "unsafe_view")
_PLACES = ("device", "layout", "pin_memory", "memory_format")
_UNSET = ("empty", "empty_like", "new_empty")
_MAKERS = (
    "empty_like", "new_empty", "full", "zeros", "ones", "arange", "scalar_tensor", "empty", "full_like", "zeros_like", "eye",
    "linspace", "logspace", "fft_fftfreq", "fft_rfftfreq", "hann_window", "hamming_window", "blackman_window",
)  # fmt: skip
