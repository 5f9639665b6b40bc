"""Modules with a part that no table row says, and bodies of that part as a model could write them."""

from __future__ import annotations

from dataclasses import dataclass

from tests.frontend.modules import Module


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """A module, and opaque leaf -> a right C++ body."""

    module: Module
    bodies: dict[str, str]

    @property
    def name(self) -> str:
        return self.module.name


SPECTRUM = """
for (long i = 0; i < relu.n[0]; ++i)
    for (long k = 0; k < abs_1.n[1]; ++k) {
        double re = 0.0, im = 0.0;
        for (long t = 0; t < relu.n[1]; ++t) {
            const double a = 6.283185307179586 * double((k * t) % relu.n[1]) / double(relu.n[1]);
            re += double(relu(i, t)) * std::cos(a);
            im -= double(relu(i, t)) * std::sin(a);
        }
        abs_1(i, k) = float(std::sqrt(re * re + im * im) / double(relu.n[1]));
    }
"""
CHOLESKY = """
for (long b = 0; b < {y}.n[0]; ++b)
    for (long i = 0; i < {y}.n[1]; ++i)
        for (long j = 0; j < {y}.n[2]; ++j) {{
            if (j > i) {{ {y}(b, i, j) = 0.0f; continue; }}
            double s = double({x}(b, i, j));
            for (long k = 0; k < j; ++k) s -= double({y}(b, i, k)) * double({y}(b, j, k));
            {y}(b, i, j) = i == j ? float(std::sqrt(s)) : float(s / double({y}(b, j, j)));
        }}
"""
SUBSTITUTE = """
for (long b = 0; b < {y}.n[0]; ++b)
    for (long c = 0; c < {y}.n[2]; ++c)
        for (long i = 0; i < {y}.n[1]; ++i) {{
            double s = double({r}(b, i, c));
            for (long k = 0; k < i; ++k) s -= double({a}(b, i, k)) * double({y}(b, k, c));
            {y}(b, i, c) = float(s / double({a}(b, i, i)));
        }}
"""
RUNNING = """
for (long {c} = 0; {c} < {y}.n[{other}]; ++{c}) {{
    double acc = 0.0;
    for (long {t} = 0; {t} < {y}.n[{axis}]; ++{t}) {{
        const double v = double({x}(i, j));
        const double hi = v > acc ? v : acc, lo = v > acc ? acc : v;
        if ({t} == 0) acc = v;
        else if (v != v || acc != acc) acc = v + acc;
        else if (hi == lo && hi * 0.0 != 0.0) acc = hi;
        else acc = hi + std::log1p(std::exp(lo - hi));
        {y}(i, j) = float(acc);
    }}
}}
"""
SLOGDET = """
double m[64];
for (long b = 0; b < add.n[0]; ++b) {
    const long n = add.n[1];
    for (long i = 0; i < n; ++i)
        for (long j = 0; j < n; ++j) m[i * n + j] = double(add(b, i, j));
    double sign = 1.0, size = 0.0;
    for (long k = 0; k < n; ++k) {
        long at = k;
        for (long i = k + 1; i < n; ++i)
            if (std::fabs(m[i * n + k]) > std::fabs(m[at * n + k])) at = i;
        if (at != k) {
            sign = -sign;
            for (long j = 0; j < n; ++j) {
                const double t = m[k * n + j];
                m[k * n + j] = m[at * n + j];
                m[at * n + j] = t;
            }
        }
        const double p = m[k * n + k];
        sign = p < 0.0 ? -sign : sign;
        size += std::log(std::fabs(p));
        for (long i = k + 1; i < n; ++i) {
            const double f = m[i * n + k] / p;
            for (long j = k; j < n; ++j) m[i * n + j] -= f * m[k * n + j];
        }
    }
    getitem(b) = float(sign);
    getitem_1(b) = float(size);
}
"""

INVERSE = """
double m[128];
for (long b = 0; b < {y}.n[0]; ++b) {{
    const long n = {y}.n[1];
    for (long i = 0; i < n; ++i)
        for (long j = 0; j < n; ++j) {{
            m[i * 2 * n + j] = double({x}(b, i, j));
            m[i * 2 * n + n + j] = i == j ? 1.0 : 0.0;
        }}
    for (long k = 0; k < n; ++k) {{
        long at = k;
        for (long i = k + 1; i < n; ++i)
            if (std::fabs(m[i * 2 * n + k]) > std::fabs(m[at * 2 * n + k])) at = i;
        for (long j = 0; j < 2 * n; ++j) {{
            const double t = m[k * 2 * n + j];
            m[k * 2 * n + j] = m[at * 2 * n + j];
            m[at * 2 * n + j] = t;
        }}
        const double p = m[k * 2 * n + k];
        for (long j = 0; j < 2 * n; ++j) m[k * 2 * n + j] /= p;
        for (long i = 0; i < n; ++i) {{
            if (i == k) continue;
            const double f = m[i * 2 * n + k];
            for (long j = 0; j < 2 * n; ++j) m[i * 2 * n + j] -= f * m[k * 2 * n + j];
        }}
    }}
    for (long i = 0; i < n; ++i)
        for (long j = 0; j < n; ++j) {y}(b, i, j) = float(m[i * 2 * n + n + j]);
}}
"""

MODULES = (
    Opaque(
        module=Module(
            name="undo",  # any matrix: there is no value for a singular one
            body="return torch.linalg.inv(x).square().mean(2)",
            inputs="torch.randn(2, 4, 4) + 4.0 * torch.eye(4)",
            kernels=2,
        ),
        bodies={"linalg_inv_leaf": INVERSE.format(y="linalg_inv", x="x")},
    ),
    Opaque(
        module=Module(
            name="spectrum",
            body="y = torch.relu(x)\nf = torch.fft.ihfft(y, dim=1)\nreturn torch.abs(f) * 0.5 + 1.0",
            inputs="torch.randn(3, 10)",
            kernels=3,
        ),
        bodies={"abs_1_leaf": SPECTRUM},
    ),
    Opaque(
        module=Module(
            name="running",
            args="x, z",
            body="return torch.relu(torch.logcumsumexp(x * 2.0, 0) - z) + 1.0",
            inputs="torch.randn(5, 3), torch.randn(5, 3)",
            kernels=3,
        ),
        bodies={
            "logcumsumexp_leaf": RUNNING.format(
                y="logcumsumexp", x="mul", t="i", c="j", axis=0, other=1
            )
        },
    ),
    Opaque(
        module=Module(
            name="gaussian",  # two opaque leaves, one behind the other
            args="x, r",
            body="a = x @ x.mT + 4.0 * torch.eye(5)\nl = torch.linalg.cholesky(a)\n"
            "return torch.linalg.solve_triangular(l, r, upper=False).square().sum(1)",
            inputs="torch.randn(2, 5, 5), torch.randn(2, 5, 3)",
            kernels=4,
        ),
        bodies={
            "linalg_cholesky_leaf": CHOLESKY.format(y="linalg_cholesky", x="add"),
            "linalg_solve_triangular_leaf": SUBSTITUTE.format(
                y="linalg_solve_triangular", a="linalg_cholesky", r="r"
            ),
        },
    ),
    Opaque(
        module=Module(
            name="blocks",
            body="return torch.logcumsumexp(x, 1).sum(0)",
            inputs="torch.randn(6, 8)",
            kernels=2,
        ),
        bodies={
            "logcumsumexp_leaf": RUNNING.format(
                y="logcumsumexp", x="x", t="j", c="i", axis=1, other=0
            )
        },
    ),
    Opaque(
        module=Module(
            name="volume",  # one operator, two results
            body="return torch.linalg.slogdet(x @ x.mT + 4.0 * torch.eye(6))",
            inputs="torch.randn(3, 6, 6)",
            kernels=2,
        ),
        bodies={"getitem_1_leaf": SLOGDET},
    ),
)
BY_NAME = {one.name: one for one in MODULES}
