"""What a candidate is worth, and which candidates are worth keeping; pure values, no process."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_compileiq import minimize
from pytest_compileiq.machine_code.metrics import value_of
from pytest_compileiq.model import BuildResult, Candidate, ControlsFile, Objective
from pytest_compileiq.rules.stopping import QUADS
from pytest_compileiq.search.finalists import dominates, pareto_front
from pytest_compileiq.search.scoring import SAMPLES, Scored, Scorer
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool, by_options, fake_benchmark
from pytest_compileiq.workers.pool import EvaluationFailed

CONTROLS = ControlsFile("options", b"-O3\n", {"-O": 3})
pairs = st.lists(st.tuples(st.sampled_from([-1.0, -0.5, 0.0, 0.5]), st.sampled_from([-1.0, 0.0, 1.0])), max_size=20)


def test_a_build_of_which_the_compiler_tells_no_metric_is_an_invalid_candidate():
    build = BuildResult(Path("k.cubin"), {}, {"code_bytes": 100}, "", 0.1)
    benchmark = SimpleNamespace(
        objectives=(Objective("spill_bytes", "minimize"),), exact_objectives=(Objective("spill_bytes", "minimize"),),
        timed_objectives=(),
        builds=SimpleNamespace(get=lambda _controls: build), value_of=lambda name, built: value_of(name, built.metrics, {}),
    )  # fmt: skip
    with pytest.raises(EvaluationFailed, match="this build has no 'spill_bytes'") as raised:
        Scorer(SimpleNamespace(), benchmark, Random(0)).score(CONTROLS, build)
    assert raised.value.kind == "compile"


def test_a_front_has_no_point_that_the_baseline_equals_or_beats_and_none_twice():
    found = [Scored(scores, CONTROLS) for scores in [(0.0, 0.0), (-0.1, 0.2), (0.1, -0.2), (-0.1, 0.2), (0.1, 0.0)]]
    assert [one.scores for one in pareto_front(found)] == [(-0.1, 0.2), (0.1, -0.2)]
    assert pareto_front(found)[0] is found[1]


def test_one_objective_has_no_front():
    assert pareto_front([Scored((-0.1,), CONTROLS)]) == []


@given(pairs)
def test_a_front_is_what_nothing_dominates(scores):
    front = [one.scores for one in pareto_front([Scored(each, CONTROLS) for each in scores])]
    assert all(one < other for one, other in pairwise(front))
    for one in scores:
        beaten = any(dominates(other, one) for other in [*scores, (0.0, 0.0)])
        assert (one in front) == (not beaten and one != (0.0, 0.0))


# ── scores that a body records ───────────────────────────────────────────────────────────────────────────────────


class Counted(FakePool):
    """Notes how many samples each block takes."""

    def block(self, *arguments):
        block = super().block(*arguments)
        self.taken = [*getattr(self, "taken", []), len(block.rows)]
        return block


SHORT, FULL = 4, 4 * SAMPLES
MORE = QUADS * FULL  # of who is not rejected after the first quad
FAST = FakeBuilder().render(Candidate({"-fast": ""}))


@pytest.mark.parametrize(
    ("noise", "once", "a_round"),
    [
        (0, [SHORT], SHORT),
        (0.01, [SHORT, MORE], FULL),  # the short block tells that scores vary, and is taken again in full
    ],
)
def test_a_score_takes_one_short_block_until_it_varies(tmp_path, noise, once, a_round):
    benchmark = fake_benchmark(tmp_path, FakeBuilder(), objectives=[minimize("loss")])
    pool = Counted(seconds=by_options({"-fast": -1.5}, otherwise=-1.2), noise=noise)
    scorer = Scorer(pool, benchmark, Random(0))
    scored = scorer.score(FAST, benchmark.builds.get(FAST))
    assert (pool.taken, scorer.varies) == (once, noise > 0)
    pool.taken = []
    rows = scorer.round(FAST, 0) + scorer.round(FAST, 1)
    assert scorer.settled(scored, rows).scores == pytest.approx(scored.scores, abs=0.05)
    assert pool.taken == [a_round] * 2
    recalled = Scorer(pool, benchmark, Random(0))
    assert recalled.shift(benchmark.objectives[0], scored.scores[0]) is None
    recalled.recall(scored.samples)
    assert recalled.varies == scorer.varies
    assert recalled.shift(benchmark.objectives[0], scored.scores[0]) == pytest.approx(-0.25, abs=0.02)


def test_a_time_is_taken_in_full_and_recalls_no_axis(tmp_path):
    benchmark = fake_benchmark(tmp_path, FakeBuilder())
    pool = Counted(noise=0)
    scorer = Scorer(pool, benchmark, Random(0))
    scored = scorer.score(FAST, benchmark.builds.get(FAST))
    scorer.recall(scored.samples)
    assert pool.taken == [FULL] and scorer.varies and scorer.shift(benchmark.objectives[0], -0.1) is None


# ── the race ─────────────────────────────────────────────────────────────────────────────────────────────────────


SECONDS = by_options({"-fast": 0.8e-3, "-O3": 0.9e-3, "-O1": 1.2e-3}, otherwise=1e-3)


def raced(tmp_path, controls, pool=None, **marker):
    """The rows of every block that one scorer takes of each of ``controls`` in turn, and what they scored."""
    builder = FakeBuilder()
    benchmark = fake_benchmark(tmp_path, builder, **marker)
    pool = pool or Counted(seconds=SECONDS, noise=1e-3)
    scorer = Scorer(pool, benchmark, Random(0))
    taken, scored = [], []
    for knobs in controls:
        pool.taken = []
        file = builder.render(Candidate(knobs))
        scored.append(scorer.score(file, benchmark.builds.get(file)))
        taken.append(pool.taken)
    return taken, scored


def test_who_is_behind_the_best_after_a_quad_is_rejected_and_who_is_ahead_is_measured_on(tmp_path):
    taken, scored = raced(tmp_path, [{"-O": 1}, {"-O": 3}, {"-fast": ""}, {"-O": 3, "-ftz": ""}])
    assert taken == [[FULL], [MORE], [MORE], [FULL]]
    assert [round(one.scores[0], 1) for one in scored] == [0.2, -0.1, -0.2, -0.1]
    assert [len({row.quad for row in one.samples}) for one in scored] == [1, QUADS, QUADS, 1]
    assert scored[0].errors > scored[2].errors > (0,) and scored[2].errors < scored[3].errors


def test_each_workload_has_a_race_of_its_own(tmp_path):
    taken, scored = raced(tmp_path, [{"-fast": ""}, {"-O": 3}], workloads={"small": {}, "large": {}})
    assert taken == [[MORE, MORE], [FULL, FULL]]
    assert len(scored[0].errors) == 1


def test_of_several_objectives_all_are_raced_and_exact_ones_have_no_error(tmp_path):
    objectives = [minimize("runtime"), minimize("code_bytes"), minimize("compile_time")]
    taken, scored = raced(tmp_path, [{"-fast": ""}, {"-O": 1}], objectives=objectives)
    assert taken == [[2 * MORE], [2 * FULL]]
    assert [[error > 0 for error in one.errors] for one in scored] == [[True, False, True]] * 2


def test_a_score_is_raced_once_its_axis_is_known(tmp_path):
    pool = Counted(seconds=by_options({"-fast": -1.5, "-O3": -0.5}, otherwise=-1.2), noise=0.01)
    taken, scored = raced(
        tmp_path, [{"-O": 3}, {"-fast": ""}, {"-O": 3, "-ftz": ""}], pool, objectives=[minimize("loss")]
    )
    assert taken == [[SHORT, MORE], [MORE], [FULL]]
    assert scored[1].scores < (0.0,) < scored[0].scores


def test_a_recalled_race_goes_on_as_the_one_that_was_run(tmp_path):
    for objective in ("runtime", "loss"):
        _, scored = raced(tmp_path, [{"-O": 3}, {"-O": 1}, {"-fast": ""}], objectives=[minimize(objective)])
        benchmark = fake_benchmark(tmp_path, FakeBuilder(), objectives=[minimize(objective)])
        pool = Counted(seconds=SECONDS, noise=1e-3)
        recalled = Scorer(pool, benchmark, Random(0))
        assert [recalled.recall(one.samples) for one in scored] == [one.errors for one in scored]
        file = FakeBuilder().render(Candidate({"-O": 3, "-ftz": ""}))
        recalled.score(file, benchmark.builds.get(file))
        assert pool.taken == [FULL]
