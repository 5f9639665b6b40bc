"""What a padded window reads as outside its tensor stands in the text, and the proofs compare it."""

from __future__ import annotations

from pathlib import Path

from septran.backends.cuda.reading import read
from septran.plan.floor import library_leaves
from septran.plan.torch_module import load_imported
from septran.prove.sets import model
from septran.prove.text import same_text
from septran.run.prove import finish
from tests.frontend.importing import imported
from tests.frontend.modules import Module
from tests.frontend.planning import planned


def test_another_fill_than_the_programs_is_found(tmp_path: Path) -> None:
    pool = Module(
        name="pool",
        body="return torch.max_pool2d(x, 3, 2, 1)",
        inputs="torch.randn(1, 2, 9, 9)",
    )
    plan, lowered = planned(load_imported(imported(pool.write(tmp_path))), "cuda_c")
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    core = finish(plan, lowered)

    def wrong(old: str, new: str) -> str:
        text = kernel.source.replace(old, new, 1)
        told = read(kernel.with_files({**dict(kernel.files), kernel.main: text}), core.program)
        return str(next(same_text(model(core.program, core.dims), told), ""))

    assert "-INFINITY" in kernel.source
    assert wrong("", "") == ""
    assert "reads as 0.0 outside" in wrong(", -INFINITY", "")
    assert "reads as inf outside" in wrong("-INFINITY", "INFINITY")
    assert "reads as -7.5 outside" in wrong("-INFINITY", "-7.5f")
