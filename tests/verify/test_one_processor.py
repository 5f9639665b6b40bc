"""one_processor: two sides with one thread each are timed on the same processor, and only while they are timed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from septran.stopwatch import one_processor
from septran.verify import timing
from septran.verify.session import Sessions

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="this system has no processor affinity"
)


def test_a_thread_and_its_children_stay_on_the_processor_it_is_on():
    before = os.sched_getaffinity(0)
    with one_processor():
        here = os.sched_getaffinity(0)
        asked = [sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]
        child = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert len(here) == 1 and here <= before
    assert child.stdout.strip() == str(sorted(here))
    assert os.sched_getaffinity(0) == before


def test_an_error_inside_gives_the_processors_back():
    before = os.sched_getaffinity(0)
    with pytest.raises(RuntimeError), one_processor():
        raise RuntimeError
    assert os.sched_getaffinity(0) == before


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this process has one processor")
def test_only_sides_with_one_thread_share_a_processor():
    with timing._place(Sessions(threads=1)) as placed:
        assert len(os.sched_getaffinity(0)) == 1
        placed.close()
        assert len(os.sched_getaffinity(0)) > 1
    with timing._place(Sessions(threads=2)):
        assert len(os.sched_getaffinity(0)) > 1
