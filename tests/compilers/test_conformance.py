"""Our own engines and toolchains keep the promises that third parties' are held to."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
from typing import ClassVar, get_args

import pytest

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.registry import make
from pytest_compileiq.model import Candidate, FailureKind
from pytest_compileiq.testing import SLIVER_SPACE, SMALL_SPACE, EngineConformance, ToolchainConformance
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.command.marker import Command
from pytest_compileiq.toolchains.nvidia.markers import Nvcc, Ptxas
from pytest_compileiq.toolchains.triton.marker import Triton
from tests import needs


def has(*modules: str) -> pytest.MarkDecorator:
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    return pytest.mark.skipif(bool(missing), reason=f"no {', '.join(missing)}: pip install {' '.join(missing)}")


class OfRegistry(EngineConformance):
    name: str

    def make(self, brief: Brief):
        return make(self.name, brief)


class TestGa(OfRegistry):
    name = "ga"
    objectives = 2
    evaluations = 28


class TestRandom(OfRegistry):
    name = "random"
    objectives = 3


class TestGrid(OfRegistry):
    name = "grid"
    space = SMALL_SPACE
    bounded_space = SLIVER_SPACE
    objectives = 3


@has("optuna")
class TestOptunaTpe(OfRegistry):
    name = "optuna:tpe"
    objectives = 2
    evaluations = 24


@has("optuna")
class TestOptunaNsga2(OfRegistry):
    name = "optuna:nsga2"
    objectives = 3
    evaluations = 60


@has("optuna", "cmaes")
class TestOptunaCmaes(OfRegistry):
    name = "optuna:cmaes"
    evaluations = 24


@has("optuna", "torch")
class TestOptunaGp(OfRegistry):
    name = "optuna:gp"
    objectives = 2
    evaluations = 14


# ``pack`` searches nothing: it asks for what it is given.


@needs.compileiq
class TestCompileIQ(OfRegistry):
    name = "compileiq"
    objectives = 2
    evaluations = 9
    deterministic = False  # NVIDIA's package draws by itself; its state is kept by a checkpoint

    def test_a_search_in_which_everything_fails_goes_on(self):
        """In every way by turns: each search starts a process that imports for half a second."""
        kinds = itertools.cycle(get_args(FailureKind))
        asked = self.search(self.make(self.brief()), lambda candidate: Told(candidate, failure=next(kinds)))
        assert len(asked) == self.evaluations > len(get_args(FailureKind))
        self.check_candidates(asked, self.space)


SUM_C = """\
#include "scale.h"
long sum(const int *x, long n) { long s = 0; for (long i = 0; i < n; i++) s += SCALE * x[i]; return s; }
"""


class TestCc(ToolchainConformance):
    files: ClassVar = {"kernels/sum.c": SUM_C, "kernels/scale.h": "#define SCALE 3\n"}
    test_dir = "kernels"
    knobs = ({"-O": 3, "-funroll-loops": ""}, {"-O": "s"})

    def make(self):
        return Cc("sum.c", flags="-O1 -march=x86-64-v3")


class TestCommand(ToolchainConformance):
    files: ClassVar = TestCc.files
    test_dir = "kernels"
    knobs = ({"level": 3, "-funroll-loops": ""}, {"level": "s"})

    def make(self):
        steps = ["gcc -O{level} -fPIC {options} -c {source} -o {out_dir}/k.o", "gcc -shared {out_dir}/k.o -o {out}"]
        return Command(steps, sources="sum.c", depends="scale.h", defaults={"level": 1})


@needs.ptxas
class TestPtxas(ToolchainConformance):
    files: ClassVar = {
        "k.ptx": """\
.version 8.3
.target sm_90a
.address_size 64
.visible .entry scale(.param .u64 p) {
    .reg .b64 %rd<3>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1;
    ld.global.f32 %f1, [%rd2]; ld.global.f32 %f2, [%rd2+4];
    fma.rn.f32 %f3, %f1, %f2, %f1; st.global.f32 [%rd2], %f3;
    ret;
}
"""
    }
    knobs = ({"-O": 1, "--maxrregcount=": 32}, {"--def-load-cache=": "cv"})

    def make(self):
        return Ptxas("k.ptx", arch="sm_90a")


@needs.nvcc
class TestNvcc(ToolchainConformance):
    files: ClassVar = {
        "k.cu": '#include "scale.h"\nextern "C" __global__ void scale(float *x) { x[threadIdx.x] /= SCALE; }\n',
        "scale.h": "#define SCALE 3.0f\n",
    }
    knobs = ({"--use_fast_math": "", "-Xptxas=-O": 1},)

    def make(self):
        return Nvcc("k.cu", arch="sm_90a")


@needs.triton
@needs.ptxas
class TestTriton(ToolchainConformance):
    files: ClassVar = {
        "kernels.py": """\
import triton
import triton.language as tl

@triton.jit
def scale(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)
"""
    }
    knobs = ({"BLOCK": 1024, "num_warps": 8, "-O": 2},)

    def make(self):
        return Triton(
            "kernels.py::scale", signature={"out": "*fp32:16", "x": "*fp32:16", "n": "i32"}, arch="sm_90a",
            constexprs={"BLOCK": 512},
        )  # fmt: skip


# ── the suites find what breaks a promise ────────────────────────────────────────────────────────────────────────


class Careless:
    """Random search, but for one fault."""

    def __init__(self, brief: Brief, fault: str) -> None:
        self.inner, self.fault = make("random", brief), fault
        self.first: list[Candidate] = []

    def ask(self, n: int) -> list[Candidate]:
        if self.fault == "repeats" and self.first:
            return self.first
        asked = self.inner.ask(n + (self.fault == "gives too many"))
        if self.fault == "leaves the space":
            asked = [Candidate({**one.knobs, "-other": 1}) for one in asked]
        self.first = self.first or asked[:1]
        return asked

    def tell(self, results: list[Told]) -> None:
        if self.fault == "breaks at a failure":
            max(told.scores[0] for told in results)


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        ("repeats", "test_candidates_lie_in_the_space_and_are_distinct"),
        ("repeats", "test_a_small_space_is_searched_to_its_end_and_no_further"),
        ("gives too many", "test_no_more_candidates_are_given_than_asked_for"),
        ("overlooks where", "test_no_candidate_lies_outside_of_where"),
        ("overlooks where", "test_the_little_that_where_leaves_is_searched_and_no_further"),
        ("leaves the space", "test_candidates_lie_in_the_space_and_are_distinct"),
        ("drops its seeds", "test_given_seeds_are_tried_first_and_what_lies_outside_the_space_is_not"),
        ("draws by itself", "test_equal_seeds_and_results_give_equal_searches"),
    ],
)
def test_an_engine_that_breaks_a_promise_is_found(fault, test):
    count = itertools.count()

    class Suite(EngineConformance):
        def make(self, brief: Brief):
            seed = next(count) if fault == "draws by itself" else brief.seed
            seeds = () if fault == "drops its seeds" else brief.seeds
            space = dataclasses.replace(brief.space, where=None) if fault == "overlooks where" else brief.space
            return Careless(dataclasses.replace(brief, seed=seed, seeds=seeds, space=space), fault)

    with pytest.raises(AssertionError):
        getattr(Suite(), test)()


def test_an_engine_that_cannot_take_a_failure_is_found():
    class Suite(EngineConformance):
        def make(self, brief: Brief):
            return Careless(brief, "breaks at a failure")

    with pytest.raises(IndexError):
        Suite().test_a_search_in_which_everything_fails_goes_on("crash")


class Lax:
    """What Cc resolves to, but for one fault."""

    def __init__(self, inner, fault: str) -> None:
        self.inner, self.fault = inner, fault

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def parse(self, kind, data, knobs):
        return self.inner.render(Candidate(knobs)) if self.fault == "trusts" else self.inner.parse(kind, data, knobs)

    def build(self, controls, out_dir, *, timeout_s):
        ignores = self.fault == "ignores its controls"
        limit_s = 60.0 if self.fault == "has no limit" else timeout_s
        return self.inner.build(None if ignores else controls, out_dir, timeout_s=limit_s)


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        ("trusts", lambda suite, lax, tmp_path: suite.test_foreign_bytes_are_refused(lax, b"-o x\n")),
        (
            "ignores its controls",
            lambda suite, lax, tmp_path: suite.test_controls_reach_the_compiler(
                lax, lax.build(None, tmp_path / "baseline", timeout_s=60), tmp_path
            ),
        ),
        (
            "has no limit",
            lambda suite, lax, tmp_path: suite.test_a_build_that_takes_too_long_is_a_timeout(lax, tmp_path),
        ),
    ],
)
def test_a_toolchain_that_breaks_a_promise_is_found(fault, test, tmp_path):
    suite = TestCc()
    lax = Lax(suite.make().resolve(suite.place(tmp_path / "project")), fault)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test(suite, lax, tmp_path)
