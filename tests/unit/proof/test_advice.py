"""Whom a look at the measured call is asked of, and when what it finds is told; driven by fakes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from pytest_compileiq import choice, minimize
from pytest_compileiq.model import PARAMS
from pytest_compileiq.proof import advice
from pytest_compileiq.rules.calls import CallTimes
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool, fake_benchmark
from pytest_compileiq.workers.pool import EvaluationFailed

STEADY = CallTimes(first_s=1e-3, later_s=1e-3, cold_s=1e-3, faults=0, call_s=1e-3, empty_s=None)
LONGER = structs.replace(STEADY, first_s=1.0)
ONE, TWO, THREE = 1000, 1001, 1002  # numbers of workers that take no samples


@pytest.fixture
def benchmark(tmp_path):
    (tmp_path / "kernel.src").write_text(FakeBuilder().source)

    def make(builder=None, **marker):
        return fake_benchmark(
            tmp_path, builder or FakeBuilder(), builds_in=tmp_path / "builds", space={"-O": choice([1])}, **marker
        )

    return make


def workers_asked(pool: FakePool) -> list[int]:
    return [worker for what, worker, _ in pool.asked if what == "look"]


def test_a_steady_call_is_looked_at_twice_in_one_process_and_nothing_is_told(benchmark):
    pool = FakePool(times=lambda look, worker: STEADY)

    assert advice.of_the_call(pool, benchmark(), None) == []
    assert workers_asked(pool) == [ONE, ONE]


@pytest.mark.parametrize(
    ("metric", "compiler", "is_told"),
    [
        ("score", PARAMS, False),  # the recorded score is what would be checked
        ("score", "fake", True),  # compiled code may be wrong and score well
        ("runtime", PARAMS, True),
        ("registers", "fake", False),  # the body need not run
    ],
)
def test_a_body_without_a_check_is_told_unless_its_scores_are_the_check(
    benchmark, monkeypatch, metric, compiler, is_told
):
    builder = FakeBuilder(compiler=replace(FakeBuilder().compiler, name=compiler))
    monkeypatch.setattr("pytest_compileiq.benchmark.assertions.advice", lambda *_, **__: "it checks nothing")
    said = advice.of_the_body(benchmark(builder, objectives=[minimize(metric)]))
    assert said == (["it checks nothing"] if is_told else [])


def test_what_a_warm_process_shows_is_told_when_three_runs_of_the_body_agree(benchmark):
    pool = FakePool(times=lambda look, worker: LONGER if look else STEADY)

    (said,) = advice.of_the_call(pool, benchmark(), None)
    assert said.startswith("the first call takes 1 s and later ones 1 ms")
    assert workers_asked(pool) == [ONE] * 4


def test_what_the_first_run_of_a_process_alone_shows_is_told_when_three_processes_agree(benchmark):
    pool = FakePool(times=lambda look, worker: STEADY if look == 1 else LONGER)

    assert len(advice.of_the_call(pool, benchmark(), None)) == 1
    assert workers_asked(pool) == [ONE, ONE, TWO, THREE]


@pytest.mark.parametrize("odd", [[1], [1, 2], [0], [0, 2]])
def test_one_odd_look_is_not_told(benchmark, odd):
    pool = FakePool(times=lambda look, worker: LONGER if look in odd else STEADY)

    assert advice.of_the_call(pool, benchmark(), None) == []


def test_the_way_to_the_kernel_is_told_beside_it(benchmark):
    pool = FakePool(times=lambda look, worker: structs.replace(LONGER, empty_s=6e-4))

    assert ["first call" in said for said in advice.of_the_call(pool, benchmark(), None)] == [True, False]


def test_of_several_workloads_each_thing_is_told_once_with_its_name(benchmark):
    several = benchmark(workloads={"small": {"n": 1}, "large": {"n": 2}, "checked": {"n": 3, "weight": 0}})
    pool = FakePool(times=lambda look, worker: structs.replace(STEADY, empty_s=6e-4 if look > 1 else None))

    (said,) = advice.of_the_call(pool, several, None)
    assert said.startswith("large: the call takes 1 ms")
    assert workers_asked(pool) == [ONE] * 4


def test_a_body_that_records_its_times_is_looked_at_once(benchmark):
    pool = FakePool(times=lambda look, worker: None)

    assert advice.of_the_call(pool, benchmark(), None) == []
    assert workers_asked(pool) == [ONE]


@pytest.mark.parametrize("of_what", [{"objectives": [minimize("code_bytes")]}, {"builder": FakeBuilder(clock="cuda")}])
def test_what_is_not_timed_on_this_processor_is_not_looked_at(benchmark, of_what):
    pool = FakePool(times=lambda look, worker: LONGER)

    assert advice.of_the_call(pool, benchmark(**of_what), None) == []
    assert pool.asked == []


def test_a_look_that_fails_is_told_and_fails_nothing(benchmark):
    pool = FakePool(failures={"": EvaluationFailed(None, "crash", "killed by SIGSEGV")})

    assert advice.of_the_call(pool, benchmark(), None) == [
        "the measured call could not be looked at: killed by SIGSEGV"
    ]


def test_a_call_that_is_hardly_longer_than_one_of_nothing_is_told_before_the_search(benchmark):
    def told(call_s: float, **marker) -> list[str]:
        pool = FakePool(times=lambda look, worker: structs.replace(STEADY, call_s=call_s, empty_s=1.8e-7))
        return [*advice.of_short_calls(pool, benchmark(**marker))]

    (said,) = told(2e-7)
    assert said.startswith(
        "the call takes 0.2 µs, of which calling an empty function through ctypes takes 0.18 µs: most"
    )
    assert told(2e-3) == told(2e-7, objectives=[minimize("code_bytes")]) == []
