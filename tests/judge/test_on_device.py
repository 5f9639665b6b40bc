"""`septran judge --where device`: after the emulation the file runs on a GPU, here a fake one whose builds are C++ of ours."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from septran import backends, gpu, settings
from septran.backends.base import Availability, Built, Foreign, HostCall
from septran.backends.cuda import backend as cuda_c
from septran.backends.cuda import foreign_device
from septran.backends.cuda.foreign import FOREIGN, ON_TORCH
from septran.backends.cuda.inline import FOREIGN as INLINE
from septran.backends.judged.c_foreign import ENTRY
from septran.backends.tilelang.foreign import FOREIGN as TILELANG
from septran.backends.triton.foreign import FOREIGN as TRITON
from septran.cli.main import main
from septran.errors import EnvironmentProblem
from septran.kernel import Kernel
from septran.outcome import Level
from septran.plan.wanted import Wanted, load_wanted
from septran.run.judge import judge
from septran.run.judge_call import called
from septran.run.judge_device import OnGpu, on_device
from septran.run.judge_target import candidates, entry_of, target_of
from septran.run.judgement import Judgement, JudgeRequest
from septran.trial.place import device_place
from septran.verify.verdict import Verdict
from tests.device.conftest import driver, empty_slot, fake, plugged_in
from tests.judge.corpus import HERE, HONEST, REFERENCES, Honest

__all__ = ["driver", "empty_slot", "fake", "plugged_in"]

RELU = "for (int i = 0; i < count; i++) y[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0;"
CHILDREN = Path(cuda_c.__file__).parents[1] / "judged" / "child"
needs_nvcc = pytest.mark.skipif(
    shutil.which("nvcc") is None and not Path("/usr/local/cuda/bin/nvcc").is_file(),
    reason="needs nvcc",
)


def built_with(body: str) -> Callable[[Kernel, Path], Built]:
    """A build whose entry does what `body` says with `x`, `y` and `count`, whatever the file says."""

    def build(kernel: Kernel, folder: Path) -> Built:
        count = math.prod(kernel.params[0].shape)
        text = (
            f'extern "C" const char* {ENTRY}_on(void* const* args, void*) {{\n'
            f"const int count = {count}; float *x = (float*)args[0], *y = (float*)args[1];\n"
            f"{body}\nreturn nullptr; }}\n"
        )
        (folder / "fake.cpp").write_text(text, encoding="utf-8")
        made = folder / "fake.so"
        subprocess.run(["g++", "-O1", "-shared", "-fPIC", folder / "fake.cpp", "-o", made], check=True)  # fmt: skip
        return Built(ok=True, artifact=made)

    return build


@pytest.fixture
def with_build(
    plugged_in: gpu.Gpu, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[Kernel, Path], Built]], None]:
    """Have CUDA files of others built by a function."""

    def use(build: Callable[[Kernel, Path], Built]) -> None:
        assert FOREIGN.device is not None
        own = replace(FOREIGN, device=replace(FOREIGN.device, build=build))
        there = {"device": Availability(ok=True, detail="a fake GPU")}
        old = cuda_c.CUDA_C
        new = replace(old, foreigns=(own,), available=lambda: {**old.available(), **there})
        monkeypatch.setattr(cuda_c, "CUDA_C", new)

    return use


def judged(where: str = "device") -> Judgement:
    request = JudgeRequest(
        file=HERE / "tour.cu", reference=REFERENCES / "relu.py", entry="relu", where=where  # type: ignore[arg-type]
    )  # fmt: skip
    return judge(request, settings=settings.load())


def on_the_gpu(folder: Path) -> tuple[Verdict | None, OnGpu]:
    """What the step on the device alone says of `relu`."""
    honest = next(h for h in HONEST if h.name == "tour.cu:relu")
    backend, foreign = target_of(HERE / "tour.cu", "", honest.text())
    assert foreign.device is not None
    wanted, call = call_of(honest, foreign, honest.text())
    place = device_place(settings.load(), backend, foreign.device, "sm_90a")
    place.require()
    return on_device(
        foreign, honest.text(), call, place, wanted.problem, folder, seed=None, budget_s=0.01
    )


@pytest.mark.wider
def test_what_is_right_there_is_said_with_its_time(
    with_build: Callable[[object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    with_build(built_with(RELU))
    found = judged()
    assert found.code == 0, found.verdict.message
    assert found.device.calls > 5 and found.device.gpu.startswith("Fake GPU")
    assert any("on Fake GPU" in text for text in found.verdict.enforced)
    assert not any(text.startswith("compile for a GPU") for text in found.verdict.not_checked)
    # torch has no such GPU here: nothing is said about time
    assert any(text.startswith("time") for text in found.verdict.not_checked)
    word = ["judge", str(HERE / "tour.cu"), "--reference", str(REFERENCES / "relu.py")]
    assert main([*word, "--entry", "relu", "--where", "device"]) == 0
    assert "on the GPU" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (RELU + "y[count - 1] = 7;", "V202"),
        (RELU + "y[count] = 7;", "V207"),
        (RELU + "x[0] = 7;", "V215"),
        ('return "too many resources requested for launch";', "V205"),
        ("*(volatile int*)16 = 1;", "V205"),
    ],
)
def test_what_is_wrong_only_there_is_found(
    with_build: Callable[[object], None], tmp_path: Path, body: str, code: str
) -> None:
    with_build(built_with(body))
    found, shown = on_the_gpu(tmp_path)
    assert found is not None and (found.code, found.where) == (code, "device"), found
    assert shown.calls or code in ("V205", "V215")


def test_a_mistake_that_only_a_gpu_shows_is_the_verdict(
    with_build: Callable[[object], None],
) -> None:
    with_build(built_with(RELU + "y[count - 1] = 7;"))
    found = judged()
    assert (found.code, found.finding) == (1, "wrong")
    assert found.verdict.message.startswith("on Fake GPU")


def test_a_file_that_the_compiler_for_it_refuses_is_found(
    with_build: Callable[[object], None], tmp_path: Path
) -> None:
    with_build(lambda kernel, folder: Built(ok=False, artifact=None, log='error: no "Sum"'))
    found, _ = on_the_gpu(tmp_path)
    assert found is not None and found.code == "V201" and not found.passed


def test_a_machine_that_fails_accuses_nobody(
    with_build: Callable[[object], None], tmp_path: Path
) -> None:
    with_build(built_with('return "out of memory";'))
    found, shown = on_the_gpu(tmp_path)
    assert found is None and "out of memory" in shown.why
    assert not shown.settles("compile for a GPU: nvcc was not asked")


@pytest.mark.usefixtures("empty_slot")
def test_a_gpu_that_is_not_there_is_said_before_anything_runs() -> None:
    with pytest.raises(EnvironmentProblem, match=r"V113.*no device for cuda_c"):
        judged()
    assert judged("auto").verdict.level is Level.ACCURATE


def call_of(honest: Honest, foreign: Foreign, text: str) -> tuple[Wanted, HostCall]:
    """What a file of the corpus is asked for, and how it is called."""
    file, reference = HERE / honest.file, REFERENCES / honest.reference
    wanted = load_wanted(reference)
    host = entry_of(file, candidates(file, honest.entry, foreign, text), lambda one: True)
    return wanted, called((file, reference), foreign, host, wanted, honest.numbers, ())


def called_as(honest: Honest, text: str, arch: str) -> tuple[Foreign, Kernel]:
    """What the device would be given of a file of the corpus."""
    _, foreign = target_of(HERE / honest.file, "", text)
    wanted, call = call_of(honest, foreign, text)
    make = foreign.on_device or foreign.kernel
    return foreign, make(text, call, wanted.problem.params, arch)[0]


@pytest.mark.few(1)
@needs_nvcc
@pytest.mark.parametrize("name", ["tour.cu:matmul", "groups.cu:softmax", "ptx.cu:matmul"])
def test_a_cuda_file_with_its_entry_is_what_nvcc_takes(tmp_path: Path, name: str) -> None:
    honest = next(h for h in HONEST if h.name == name)
    _, kernel = called_as(honest, honest.text(), "sm_90a")
    built = foreign_device.build(kernel, tmp_path)
    assert built.ok, built.log
    symbols = subprocess.run(["nm", "-D", built.artifact], capture_output=True, text=True, check=True)  # fmt: skip
    assert f" T {ENTRY}_on" in symbols.stdout


def test_a_mistake_of_the_files_own_keeps_its_line(tmp_path: Path) -> None:
    honest = next(h for h in HONEST if h.file == "tour.cu")
    _, kernel = called_as(honest, honest.text(), "sm_90a")
    source = foreign_device.for_device(kernel).source
    assert source.partition('#line 1 "judged_kernel.cu"\n')[2].startswith(honest.text())


def test_a_file_on_torchs_tensors_is_built_by_torch() -> None:
    honest = next(h for h in HONEST if h.file == "torch_softmax.cu")
    foreign, kernel = called_as(honest, honest.text(), "sm_90a")
    assert foreign.suffixes == ON_TORCH.suffixes and foreign.device is ON_TORCH.device
    assert "load(" in kernel.source and dict(kernel.files)["judged_kernel.cu"].startswith(honest.text())  # fmt: skip


@pytest.mark.parametrize("foreign", [TRITON, TILELANG, INLINE])
def test_python_files_run_there_as_they_are(foreign: Foreign) -> None:
    assert foreign.device is not None and foreign.device.loader == "python_device.py.j2"


ENTRY_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
import septran_device_host as device

def plan(**more):
    return {"args": [], "returns": True, "made_with": [], "state": [], "allow_torch": [], "made": "", **more}

def tensor(name, begins=""): return {"param": name, "value": None, "keyword": "", "begins": begins}
def number(value, keyword=""): return {"param": "", "value": value, "keyword": keyword, "begins": ""}

def scaled(x, *, by):
    out = torch.empty_like(x)
    out[1:] = x[1:] * by
    return out

x, y = torch.arange(4.0), torch.zeros(4)
device.Entry(scaled, plan(args=[tensor("x"), number(3, "by")]), ["y"])({"x": x, "y": y})
print(y.tolist())

class JIT:  # TileLang's, in eager style: tensors and numbers in one call
    def __call__(self, A, size, B): B.copy_(A * size)
    signature = __import__("inspect").signature(lambda A, size, B: None)

y = torch.zeros(4)
device.Entry(JIT(), plan(args=[tensor("x"), tensor("y")], made_with=[number(2, "size")], made="eager", returns=False), ["y"])({"x": x, "y": y})
print(y.tolist())

def factory(size):
    return lambda a, b: b.copy_(a + size)

y = torch.zeros(4)
device.Entry(factory, plan(args=[tensor("x"), tensor("y")], made_with=[number(2, "size")], made="factory", returns=False), ["y"])({"x": x, "y": y})
print(y.tolist())

y = torch.zeros(4)
device.Entry(lambda a: a.mul_(2), plan(args=[tensor("y", "x")], returns=False), ["y"])({"x": x, "y": y})
print(x.tolist(), y.tolist())

entry = device.Entry(lambda x: torch.empty(3), plan(args=[tensor("x")]), ["y"])
try:
    entry({"x": x, "y": y})
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_host_function_is_called_as_its_users_do(tmp_path: Path) -> None:
    for name in (
        "torch_host",
        "torch_card",
        "torch_lasting",
        "torch_left",
        "torch_mixed",
        "torch_states",
        "device_host",
    ):
        shutil.copyfile(CHILDREN / f"{name}.py", tmp_path / f"septran_{name}.py")
    done = subprocess.run(
        [sys.executable, "-c", ENTRY_PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True
    )  # fmt: skip
    poisoned, eager, made, in_place, refused = done.stdout.splitlines()
    assert poisoned == "[nan, 3.0, 6.0, 9.0]"  # what nobody wrote shows
    assert eager == "[0.0, 2.0, 4.0, 6.0]"
    assert made == "[2.0, 3.0, 4.0, 5.0]"
    assert in_place == "[0.0, 1.0, 2.0, 3.0] [0.0, 2.0, 4.0, 6.0]"
    assert refused.startswith("HostError host: y has shape (3,)")


def test_every_target_that_runs_on_nvidias_gpus_says_how_files_of_others_do() -> None:
    found = [backends.get(name) for name in backends.names()]
    for backend in (b for b in found if b.device is not None and b.device.vendor == "nvidia"):
        assert all(f.device is not None for f in backend.foreigns), backend.name
