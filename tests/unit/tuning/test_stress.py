"""Finalists under stress, on fakes: who is blamed, what is not run, what is kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from types import SimpleNamespace

import pytest

from pytest_compileiq import literal
from pytest_compileiq.benchmark.body import Touched
from pytest_compileiq.claim import Stress
from pytest_compileiq.errors import MarkerError, TuneFailed
from pytest_compileiq.model import Candidate
from pytest_compileiq.rules.calls import Called, FirstCalls
from pytest_compileiq.rules.stress import Draw
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool, FakeProgress, by_options, fake_benchmark
from pytest_compileiq.tuning.stress import FLOOR, Stressing, Wrong
from pytest_compileiq.workers.messages import DrawTask
from pytest_compileiq.workers.pool import EvaluationFailed
from tests.unit.project_on_fakes import FAKE, GAIN, GCC, ProjectOnFakes, WithoutLicences

DRAWING = Touched(frozenset({"kernel"}), frozenset(), drew=True)
FAILED = EvaluationFailed("tuned", "wrong", "1 != 2")
BASELINE_FAILED = EvaluationFailed("baseline", "wrong", "3 != 4")


def controls(**knobs):
    return FakeBuilder().render(Candidate({f"-{name}": value for name, value in knobs.items()}))


FAST = controls(fast="")


def tuning_of(benchmark, pool, *, seed=0, drew=True):
    baseline = SimpleNamespace(drew=drew)
    return SimpleNamespace(
        benchmark=benchmark, pool=pool, progress=FakeProgress(), seed=seed, baseline=baseline, licences=()
    )


def stressing(root, draws: Callable[[str, int, int], object], *, clock=lambda: 0.0, drew=True, **marker):
    pool = FakePool(draws=draws)
    return pool, Stressing(tuning_of(fake_benchmark(root, FakeBuilder(), **marker), pool, drew=drew), clock=clock)


def failing_on(*seeds: int, arm_of: Callable[[int], bool] = lambda worker: True):
    """Draws on which the tuned arm fails in the workers of ``arm_of``; the baseline always holds."""
    return lambda options, worker, seed: FAILED if options and seed in seeds and arm_of(worker) else Draw()


def test_a_finalist_that_holds_is_recorded_with_its_draws(tmp_path):
    pool, stress = stressing(tmp_path, lambda *_: Draw(("out",)), workloads={"a": {}, "b": {"weight": 0}})
    assert stress.hold(FAST) == Stress(draws=32, usable=32, seed=1, outputs=2)
    assert len(pool.asked) == 64


def test_one_that_is_wrong_again_when_repeated_in_a_new_process_drops_out(tmp_path):
    pool, stress = stressing(tmp_path, failing_on(5))
    judged = stress.hold(FAST)
    assert isinstance(judged, Wrong) and judged.seed == 5
    assert str(judged) == "wrong on draw 5 of acf.rng: workload 'default' (wrong): 1 != 2"
    repeated = [(what, worker, options) for what, worker, options in pool.asked[-5:] if what != "block"]
    assert repeated == [
        ("draw", 0, "-fast\n"), ("draw", 200, ""), ("discard", 201, ""), ("draw", 201, "-fast\n"), ("discard", 0, "")
    ]  # fmt: skip


def test_one_that_fails_once_and_holds_when_repeated_is_not_to_blame(tmp_path):
    _, stress = stressing(tmp_path, failing_on(5, 6, arm_of=lambda worker: worker == 0))
    judged = stress.hold(FAST)
    assert (judged.draws, judged.usable) == (32, 30)


def test_a_draw_on_which_the_baseline_fails_is_unusable_and_blames_nobody(tmp_path):
    pool, stress = stressing(tmp_path, lambda options, worker, seed: BASELINE_FAILED if seed % 2 else Draw())
    judged = stress.hold(FAST)
    assert (judged.draws, judged.usable) == (32, 16)
    assert not [worker for _, worker, _ in pool.asked if worker == 201]


def test_a_baseline_that_fails_only_after_the_tuned_arm_ran_in_its_process_is_the_tuned_arms_fault(tmp_path):
    _, stress = stressing(tmp_path, lambda options, worker, seed: BASELINE_FAILED if options else Draw())
    assert isinstance(stress.hold(FAST), Wrong)


def test_a_body_that_does_not_read_the_random_source_runs_once_as_each_arm_and_is_held_to_copies(tmp_path):
    pool, stress = stressing(tmp_path, failing_on(1), drew=False)
    assert stress.hold(FAST) == Stress(draws=0)
    assert pool.asked == [("draw", 0, "-fast\n"), ("first_calls", 0, "-fast\n")]


def test_outputs_that_are_not_the_baselines_refuse_a_body_without_draws_too(tmp_path):
    pool, stress = stressing(tmp_path, lambda *_: Draw(apart="70% of the values differ"), drew=False)
    assert stress.hold(FAST).reason.endswith("70% of the values differ")
    assert pool.asked == [("draw", 0, "-fast\n")]


@pytest.mark.parametrize(("first", "rounds"), [(4, 16), (1, 16), (2, 256)])
def test_first_calls_of_copies_are_taken_until_they_decide(tmp_path, first, rounds):
    pool, stress = stressing(tmp_path, failing_on(1), drew=False)
    pool.calls = lambda seed: FirstCalls(Called(1e-3, 1e-3, 1e-3), Called(1e-3 / first, 1e-3 / 4, 1e-3 / 4))
    judged = stress.hold(FAST)
    assert [what for what, *_ in pool.asked].count("first_calls") == rounds
    assert isinstance(judged, Wrong) == (first == 1)


def test_body_that_does_not_bear_copies_of_its_build_is_not_blamed(tmp_path):
    pool, stress = stressing(tmp_path, failing_on(1), drew=False)
    pool.failures = {"-fast\n": FAILED}
    assert stress.hold(FAST) == Stress(draws=0)


def test_stress_0_switches_it_off(tmp_path):
    pool, stress = stressing(tmp_path, failing_on(1), stress=0)
    assert stress.hold(FAST) is None and pool.asked == []


def test_long_bodies_get_fewer_draws_and_never_less_than_the_floor(tmp_path):
    seconds = iter(range(0, 10_000, 25))
    _, stress = stressing(tmp_path, lambda *_: Draw(), clock=lambda: next(seconds))
    assert stress.hold(FAST).draws == FLOOR
    seconds = iter(range(10_000))
    _, stress = stressing(tmp_path, lambda *_: Draw(), clock=lambda: next(seconds))
    assert FLOOR < stress.hold(FAST).draws < 32
    seconds = iter(range(0, 10_000, 25))
    pool, stress = stressing(tmp_path, lambda *_: Draw(), clock=lambda: next(seconds), drew=False)
    pool.calls = lambda seed: FirstCalls(Called(1e-3, 1e-3, 1e-3), Called(1e-3, 1e-4, 1e-4))
    assert isinstance(stress.hold(FAST), Wrong) and len(pool.asked) == 1 + FLOOR + 1


def test_the_next_best_takes_the_place_of_one_that_is_wrong(tmp_path):
    ranked = [controls(fast="", O=level) for level in (1, 2, 3)]
    _, stress = stressing(tmp_path, lambda options, *_: FAILED if "-O1" in options else Draw())
    assert stress.finalists(ranked, most=1) == [ranked[1]] and [wrong.controls for wrong in stress.wrong] == ranked[:1]
    assert stress.record_of(ranked[1]).usable == 32


def test_what_was_made_of_a_finalist_is_held_to_draws_too_and_what_they_gave_is_kept(tmp_path):
    _, stress = stressing(tmp_path, lambda options, *_: FAILED if "-O1" in options else Draw())
    assert stress.finalists([controls(fast="", O=2)], most=1)
    assert stress.holds(controls(O=3)) and not stress.holds(controls(O=1))
    assert stress.record_of(controls(O=3)).usable == 32
    assert stress.record_of(controls(O=1)) is None
    assert [(wrong.seed, wrong.controls) for wrong in stress.wrong] == [(1, controls(O=1))]


def test_other_seeds_of_the_tune_give_other_draws(tmp_path):
    seeds = set()
    for seed in (0, 1, 2**63 - 1):
        pool = FakePool(draws=lambda options, worker, seed: seeds.add(seed) or Draw())
        Stressing(tuning_of(fake_benchmark(tmp_path, FakeBuilder()), pool, seed=seed)).hold(FAST)
    assert len(seeds) == 96 and min(seeds) > 0


@pytest.mark.parametrize("stress", [-1, 10_001, True, 1.5, "32", None])
def test_the_marker_takes_a_number_of_draws(tmp_path, stress):
    with pytest.raises(MarkerError, match=r"tune\(stress=.*: expected a number of draws from 0 \(off\) to 10000"):
        fake_benchmark(tmp_path, FakeBuilder(), stress=stress)


# ── a whole tune ─────────────────────────────────────────────────────────────────────────────────────────────────


def drawing(draws=lambda *_: Draw(("out",)), **pool) -> FakePool:
    return FakePool(seconds=GAIN, touched=DRAWING, draws=draws, **pool)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project").mkdir()
    return ProjectOnFakes(tmp_path / "project")


def test_every_claim_of_a_winner_holds_what_its_draws_gave(project):
    report = project.tune(drawing())
    (claim,) = project.store.read("kernel", FAKE).claims
    assert claim.stress == Stress(draws=32, usable=32, seed=1, outputs=1)
    assert "stress: 32 draws, all clean: a failure rate above 9 % is excluded (95 %); seeds 1 to 32" in report.notes


@pytest.mark.parametrize(
    ("builder", "option", "promised"),
    [
        (WithoutLicences(compiler=GCC), "-funroll-loops", True),
        (WithoutLicences(compiler=GCC), "-ffast-math", False),
        (FakeBuilder(compiler=GCC), "-funroll-loops", False),
    ],
)
def test_draws_are_held_to_the_baseline_s_bits_where_the_controls_promise_them(tmp_path, builder, option, promised):
    asked = set()

    class Watching(FakePool):
        def ask(self, number, benchmark, task):
            if isinstance(task, DrawTask):
                asked.add(task.bits_promised)
            return super().ask(number, benchmark, task)

    made = ProjectOnFakes(tmp_path, space={option: literal("", knockout_prob=0.5)})
    made.tune(Watching(seconds=by_options({option: 8e-4}), touched=DRAWING), builder)
    assert asked == {promised}


def test_a_body_that_draws_nothing_runs_once_as_each_arm_and_its_claim_says_so(project):
    pool = FakePool(seconds=GAIN)
    report = project.tune(pool)
    assert {seed for what, seed, *_ in pool.asked if what == "draw"} == {0}
    assert project.store.read("kernel", FAKE).claims[0].stress == Stress(draws=0)
    assert not [note for note in report.notes if "stress" in note]


def test_where_every_finalist_is_wrong_nothing_wins_and_each_is_told_with_what_repeats_it(project):
    report = project.tune(drawing(failing_on(3)))
    assert report.verdict == "BASELINE"
    assert report.message.endswith("wrong where the baseline is not, on draw 3 of acf.rng")
    (first, *_) = [note for note in report.notes if "dropped out" in note]
    where = first.rpartition("--tune-from=")[2]
    assert f"repeat it: pytest test_kernel.py::test_kernel --tune-draw=3 --tune-from={where}" in first
    assert (project.root / where).is_file() and where.startswith(".compileiq/")


def test_budget_0_stresses_what_is_committed_and_refuses_what_is_wrong(project):
    project.tune(drawing())
    before = project.store.read("kernel", FAKE)
    with pytest.raises(TuneFailed, match=r"wrong on draw 2 .*repeat it: pytest \S+ --tune-draw=2; nothing was written"):
        project.tune(drawing(failing_on(2)), evaluations=0)
    assert project.store.read("kernel", FAKE) == before
    assert project.tune(drawing(), evaluations=0).verdict == "PROVEN"
    assert project.store.read("kernel", FAKE).claims[0].stress.usable == 32


def test_committed_controls_that_turn_out_wrong_do_not_stay(project):
    project.tune(drawing())
    report = project.tune(drawing(failing_on(2)))
    assert report.verdict == "BASELINE"
    assert any("the committed controls dropped out, wrong on draw 2" in note for note in report.notes)
    assert project.store.read("kernel", FAKE).outcome == "baseline"


def remembering(pace: float):
    """Draws whose first calls are as fast in both arms, and later ones of the tuned arm ``pace`` times as fast."""
    calls = FirstCalls(Called(1e-3, 1e-3, 1e-3), Called(1e-3, 1e-3 / pace, 1e-3 / pace))
    return lambda *_: Draw(("out",), calls=calls)


def test_gain_of_remembered_input_is_refused_and_told_without_a_draw_to_repeat(project):
    report = project.tune(drawing(remembering(4)))
    assert report.verdict == "BASELINE"
    assert "refused, workload 'default': on 32 new draws of acf.rng" in report.message
    assert not [note for note in report.notes if "repeat it" in note]
    project.tune(drawing())
    with pytest.raises(TuneFailed, match=r"committed controls are refused, workload 'default': .* remembers work"):
        project.tune(drawing(remembering(4)), evaluations=0)


@pytest.mark.parametrize(("later", "asked"), [(0.5, 32), (1.0, 0)])
def test_first_calls_of_more_draws_are_taken_where_those_of_the_draws_do_not_decide(tmp_path, later, asked):
    """Of a memo of a few microseconds, whose first calls vary by more than it saves."""
    rng = Random(0)

    def noisy(pace):
        first_s = 1e-6 * math.exp(rng.gauss(0, 0.6))
        return FirstCalls(Called(1e-6, 1e-6, 1e-6), Called(first_s, pace * 1e-6, pace * 1e-6))

    pool, stress = stressing(tmp_path, lambda *_: Draw(("out",), calls=noisy(later)))
    pool.calls = lambda seed: noisy(later)

    judged = stress.hold(FAST)
    assert [what for what, *_ in pool.asked].count("first_calls") == asked
    assert ("on 64 new draws of acf.rng" in str(judged)) == (asked > 0)


def test_marker_that_says_that_inputs_repeat_is_recorded_and_told(tmp_path):
    made = ProjectOnFakes(tmp_path, repeats=True)
    report = made.tune(drawing())
    assert made.store.read("kernel", FAKE).claims[0].stress.repeats
    assert "stress: the test declares repeats=True: the gain may be one of remembered input" in report.notes
    with pytest.raises(MarkerError, match=r"tune\(repeats=1\): expected True where production repeats its inputs"):
        fake_benchmark(tmp_path, FakeBuilder(), repeats=1)
