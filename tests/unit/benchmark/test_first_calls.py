"""First calls of Python bodies on a draw: which runs are made, and where nothing is timed."""

from __future__ import annotations

import resource
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_compileiq import Cc, minimize
from pytest_compileiq.benchmark.body import Bodies
from pytest_compileiq.benchmark.first_calls import time_first_calls, time_first_calls_of_copies
from pytest_compileiq.model import Candidate, Workload
from pytest_compileiq.testing import fake_benchmark
from pytest_compileiq.timing import outputs
from pytest_compileiq.toolchains.base import Place


def timed(body, seed=1, *, repeats=False, stress=8, clock="cpu", metric="runtime"):
    benchmark = SimpleNamespace(
        builds=None,
        builder=SimpleNamespace(clock=clock),
        spec=SimpleNamespace(repeats=repeats, stress=stress),
        timed_objectives=[minimize(metric)],
    )
    arms = {"baseline": None, "tuned": None}
    return time_first_calls(Bodies(benchmark, body, arms, Workload("default")), seed)


class Body:
    """One that measures, and notes the arms in the order of their runs, their draws, and their calls."""

    def __init__(self):
        self.arms, self.drawn, self.calls, self.resets = [], set(), 0, 0

    def __call__(self, acf):
        self.arms.append(acf.arm)
        self.drawn.add(acf.rng.random())
        acf.measure(self.call, reset=self.reset)
        pytest.fail("the rest of the body is not run")

    def call(self):
        self.calls += 1

    def reset(self):
        self.resets += 1


def test_both_arms_are_called_seven_times_on_one_draw_in_random_order():
    bodies = [Body() for _ in range(8)]
    for seed, body in enumerate(bodies):
        calls = timed(body, seed)
        assert min(calls.baseline.later_s, calls.tuned.first_s) > 0
        assert (len(body.drawn), body.calls, body.resets) == (1, 14, 14)
    assert {body.arms[0] for body in bodies} == {"baseline", "tuned"}
    assert len({number for body in bodies for number in body.drawn}) == 8


def test_outputs_lie_in_the_caches_alike_before_each_call_that_is_compared(monkeypatch):
    events = []
    monkeypatch.setattr(outputs._Host, "flip", lambda *_: events.append("touched"))

    def body(acf):
        acf.measure(lambda: events.append("called"), outputs=[np.zeros(4)])

    assert timed(body)
    assert events == 2 * [*4 * ["touched", "called"], *3 * ["called"]]


@pytest.mark.parametrize("given", [{"repeats": True}, {"stress": 7}, {"clock": "cuda"}, {"metric": "compile_time"}])
def test_no_body_is_run_where_first_calls_decide_nothing(given):
    body = Body()
    assert timed(body, **given) is None and not body.arms


def test_body_that_fails_or_measures_nothing_is_left_out():
    assert timed(lambda acf: None) is None
    assert timed(lambda acf: acf.measure(lambda: 1 / 0)) is None


COUNTS_C = (
    "static char kept[1 << 22]; int count(void) { for (int i = 0; i < 1 << 22; i += 4096) kept[i]++; return kept[0]; }"
)


def test_each_copy_of_a_build_is_called_for_the_first_time_and_finds_its_pages(tmp_path):
    (tmp_path / "count.c").write_text(COUNTS_C)
    builder = Cc("count.c").resolve(Place(tmp_path, tmp_path))
    benchmark = fake_benchmark(tmp_path, builder)
    benchmark.builds.directory.mkdir()
    arms = {"baseline": None, "tuned": builder.render(Candidate({"-O": "3"}))}
    counted, pages = [], []

    def body(acf):
        library = acf.build().load()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        first = library.count()
        pages.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        acf.measure(lambda: counted.append((first, library.count())))

    for seed in range(3):
        time_first_calls_of_copies(Bodies(benchmark, body, arms, Workload("default")), seed)
    assert counted == [(1, count) for _ in range(6) for count in range(2, 9)]
    assert max(pages[1:]) < 100  # of 1,024; the first run also makes the memory that empties caches
    assert [path.name for path in benchmark.builds.directory.iterdir() if path.name.startswith("tmp")] == []
