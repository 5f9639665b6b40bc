"""`septran prove`: what is proven of a kernel's hierarchy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from septran.cli.files import INPUT, OUTPUT
from septran.cli.options import common, terminal
from septran.cli.request import build, kernel_options

if TYPE_CHECKING:
    from septran.prove import Certificate, RuleResult
    from septran.run.field import FieldRun


@click.command("prove")
@kernel_options
@click.option(
    "--symbolic",
    metavar="NAME,...",
    default="",
    help="Dims that stay symbolic: proven for all their sizes.",
)
@click.option("--dims", "every", type=click.Choice(["symbolic"]), help="All dims stay symbolic.")
@click.option("--certificate", "output", type=OUTPUT, help="Write the certificate here.")
@click.option(
    "-o", "--report", type=OUTPUT, help="Write a page with a picture of each witness here."
)
@click.option("--check", "given", type=INPUT, help="Decide a certificate's rules again.")
@click.option(
    "--field",
    "in_field",
    is_flag=True,
    help="Also run products and sums over a prime field, which is exact, and compare with torch.",
)
@common
def command(
    *,
    in_field: bool,
    symbolic: str,
    every: str | None,
    output: Path | None,
    report: Path | None,
    given: Path | None,
    **asked: Any,
) -> int:
    r"""Prove bounds, races, coverage, order of copies and data of a kernel's hierarchy.

    \b
    septran prove --op gemm --backend cuda_c
    septran prove --op gemm --backend cuda_c --symbolic M,N
    septran prove --op gemm --backend cuda_c --dims symbolic
    septran prove --op gemm --backend cuda_c --field
    septran prove --check certificate.json -o report.html
    """
    from septran import settings as settings_
    from septran.plan.resolve import resolve
    from septran.run.prove import check_certificate, prove_request

    term = terminal()
    guilty = ""
    tested: FieldRun | None = None
    if given is not None:
        certificate = check_certificate(given)
    else:
        request = build(asked, settings_.load())
        names = tuple(n.strip() for n in symbolic.split(",") if n.strip())
        if every:
            names = tuple(resolve(request).operator.dims)
        proof = prove_request(request, names)
        certificate, guilty = proof.certificate, proof.guilty
        if in_field:
            from septran.run.field import field_of

            tested = field_of(request)
    if output is not None:
        from septran.run.prove import write_certificate

        write_certificate(certificate, output)
        term.note(f"certificate written to {output}")
    if report is not None:
        from septran.atomic import write_atomic
        from septran.report.proof import write_proof

        write_atomic(report, write_proof(certificate.to_json(), guilty))
        term.note(f"page written to {report}")
    if term.json:
        told = {} if tested is None else {"field": tested.to_json()}
        term.emit({**certificate.to_json(), "guilty": guilty, **told})
    else:
        _print(certificate, guilty, tested)
    return 0 if certificate.holds and not (tested is not None and tested.wrong) else 1


def _print(certificate: Certificate, guilty: str, tested: FieldRun | None) -> None:
    term = terminal()
    from septran.prove import ASSUMPTIONS

    where = f"{certificate.target}.{certificate.arch}" if certificate.arch else certificate.target
    sizes = ", ".join(f"{a} <= {n} <= {b}" for n, (a, b) in certificate.domain.items())
    lines = [f"{certificate.name} on {where}: " + (f"for all {sizes}" if sizes else "at its sizes")]
    for r in certificate.rules:
        lines.append(f"  {r.rule:<10} {_state(r)}")
        lines += [f"             {f}" for f in r.findings]
    if tested is not None:
        lines.append(f"  field      {tested}")
    for law in certificate.assumptions:
        if law not in ASSUMPTIONS:
            lines.append(f"  assumes    {law}")
    if guilty:
        lines.append(f"  first broken after pass {guilty}")
    text = "" if "text" in certificate.proved else "text of the emitter, "
    lines.append(f"not proved: leaf bodies (tested), {text}compiler, hardware")
    term.result("\n".join(lines))


def _state(r: RuleResult) -> str:
    if r.state == "not asked":
        return f"not asked: {r.why}"
    return f"{r.state:<9} {r.about}".ljust(44) + f" {r.seconds:.2f} s"
