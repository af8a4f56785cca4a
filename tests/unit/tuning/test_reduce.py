"""The smallest winner on fakes whose machine code and times are known: what is dropped, what stays, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace

import pytest

from pytest_compileiq import PtxasSearchSpace, choice, literal, minimize
from pytest_compileiq.benchmark.body import Touched
from pytest_compileiq.config import Budget
from pytest_compileiq.errors import BuildError, NoWorker
from pytest_compileiq.model import Candidate, ControlsFile, Knobs
from pytest_compileiq.rules.stress import Draw
from pytest_compileiq.search.scoring import Scored, key_of
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool, FakeProgress, fake_benchmark, fake_settings
from pytest_compileiq.tuning import attribution, reduction
from pytest_compileiq.tuning.run import tune
from pytest_compileiq.workers.pool import EvaluationFailed
from tests.unit.project_on_fakes import FAKE, ProjectOnFakes

ALWAYS = 0.001  # a winner of the search has nearly everything
IDLE = tuple(f"-idle{number}" for number in range(5))
USELESS = tuple(f"-useless{number}" for number in range(5))
EFFECTS = {"-fast": 0.5, "-good": 0.8}


def flags(*names: str) -> dict:
    return {name: literal("", knockout_prob=ALWAYS) for name in names}


def code(knobs: Knobs) -> dict[str, str]:
    return {"kernel": repr(sorted(name for name in knobs if not name.startswith("-idle")))}


def times(effects: dict[str, float]):
    def seconds(controls: ControlsFile | None) -> float:
        knobs = controls.knobs if controls else {}
        return 1e-3 * math.prod(factor for name, factor in effects.items() if name in knobs)

    return seconds


class Project(ProjectOnFakes):
    """A project whose tune reduces."""

    def tune(self, pool=None, builder=None, evaluations=2, **settings):
        self.progress = FakeProgress()
        return tune(
            self.benchmark(builder or FakeBuilder(code=code)),
            settings=fake_settings(self.root, budget=Budget(evaluations=evaluations), **{"reduce": True} | settings),
            store=self.store,
            pool=pool or FakePool(seconds=times(EFFECTS)),
            progress=self.progress,
        )

    @property
    def stored(self):
        return self.store.read("kernel", FAKE)

    @property
    def knobs(self) -> set[str]:
        return set(self.stored.controls.knobs)


def reduce(benchmark, winner: ControlsFile, score: float, pool=None, *, aliases=(), seen=(), varies=True, width=None):
    """Reduce ``winner`` after a search of a minute that saw ``seen``: knobs and scores."""
    tuning = SimpleNamespace(
        benchmark=benchmark,
        pool=pool or FakePool(),
        progress=FakeProgress(),
        seed=0,
        settings=fake_settings(benchmark.rootdir),
        width=width or (lambda knobs: 0),
    )
    search = SimpleNamespace(
        aliases=dict(aliases) | {number: [knobs] for number, (knobs, _) in enumerate(seen)},
        scored={number: Scored((score,), None) for number, (_, score) in enumerate(seen)},
        why_never=lambda build: None,
        tally=SimpleNamespace(seconds=60.0),
        brief=SimpleNamespace(scorer=SimpleNamespace(varies=varies)),
    )
    return reduction.reduce_winner(tuning, search, Scored((score,), winner))


@pytest.fixture
def project(tmp_path):
    return lambda space=None, **marker: Project(tmp_path, space=space or flags(*IDLE, *USELESS, *EFFECTS), **marker)


def test_what_changes_no_machine_code_and_what_brings_nothing_is_not_stored(project):
    made = project()
    report = made.tune()
    assert made.knobs == set(EFFECTS)
    reduction = made.stored.reduction
    assert (reduction.before, reduction.after, reduction.by_code, reduction.by_objective) == (12, 2, 5, 5)
    assert reduction.undecided == 0 and reduction.budgets["runtime"] == pytest.approx(-0.05 * math.log(0.4), rel=0.05)
    (loss,) = reduction.losses
    assert loss.low < 1e-3 and loss.high > -1e-3
    assert any("12 controls → 2: 5 change no machine code, 5 bring nothing" in note for note in report.notes)


def test_a_counted_objective_is_reduced_without_losing_a_byte(project):
    def sizes(knobs: Knobs) -> dict[str, str]:
        smaller = 40 * ("-fast" in knobs) + 3 * ("-good" in knobs)
        return {"kernel": "x" * (100 - smaller)}

    made = project(objectives=[minimize("code_bytes")])
    made.tune(builder=FakeBuilder(code=sizes))
    assert made.knobs == set(EFFECTS)
    assert made.stored.claims[0].tuned_value == 57
    values = {entry.knobs: (entry.value, entry.value_without) for entry in made.stored.attribution.without}
    assert values == {("-fast",): (57, 97), ("-good",): (57, 60)}


def test_a_set_that_is_wrong_or_does_not_build_is_not_taken(project):
    made = project()
    needed = {"-useless0", "-useless1"}

    class Guarded(FakePool):
        def _ask(self, what, number, controls):
            super()._ask(what, number, controls)
            if controls is not None and "-useless0" not in controls.knobs:
                raise EvaluationFailed("tuned", "wrong", "1 != 2")

    def refusing(knobs: Knobs) -> dict[str, str]:
        if knobs and "-useless1" not in knobs:
            raise BuildError("needs -useless1", kind="compile")
        return code(knobs)

    made.tune(Guarded(seconds=times(EFFECTS)), FakeBuilder(code=refusing))
    assert made.knobs == {*EFFECTS, *needed}
    standings = {entry.knobs[0]: entry.standing for entry in made.stored.attribution.without}
    assert standings["-useless0"] == "wrong" and standings["-useless1"] == "required"


def test_a_reduced_set_stays_in_the_space(project):
    space = {
        "-O": choice([2, 3]),
        "group": {"-level": choice([1, 2]), **flags("-fast")},
        **flags("-useless0", "-useless1", "-a", "-b"),
    }
    bound = [where_a_means_b]
    made = project(space, where=bound)
    made.tune(FakePool(seconds=times({"-fast": 0.5, "-a": 0.8})), evaluations=24)
    assert made.knobs == {"-O", "-level", "-fast", "-a", "-b"}
    assert made.benchmark().why_outside(made.benchmark().builder.parse("options", b"".join(
        f"{name}{value}\n".encode() for name, value in sorted(made.stored.controls.knobs.items())
    ), made.stored.controls.knobs)) is None  # fmt: skip


def where_a_means_b(k):
    return "-b" in k or "-a" not in k


@dataclass(frozen=True)
class WithDefaults(FakeBuilder):
    """A builder whose baseline has values, as Params and Triton's launch have."""

    @property
    def baseline_params(self):
        return {"block": 64, "warps": 4, "stages": 2}


def test_a_parameter_at_the_baselines_value_is_no_control_though_the_space_always_has_it(project):
    space = {
        "block": choice([32, 64, 128]), "warps": choice([2, 4]), "stages": choice([1, 2, 3], knockout_prob=0.1),
        **flags("-fast"),
    }  # fmt: skip

    def no_code(knobs: Knobs) -> dict[str, str]:
        return {"kernel": repr("-fast" in knobs)}

    def seconds(controls):
        knobs = controls.knobs if controls else {}
        return 1e-3 * (0.5 if knobs.get("block") == 128 else 1) * (0.8 if "-fast" in knobs else 1)

    made = project(space)
    made.tune(FakePool(seconds=seconds), WithDefaults(code=no_code), evaluations=40)
    assert made.stored.controls.knobs == {"block": 128, "-fast": ""}
    assert made.stored.reduction.after == 2
    assert {entry.knobs for entry in made.stored.attribution.without} == {("block",), ("-fast",)}
    assert made.benchmark(WithDefaults(code=no_code)).why_outside(Candidate(made.stored.controls.knobs)) is None


def without_time(monkeypatch):
    alone_without_time(monkeypatch)
    monkeypatch.setattr(reduction, "TOGETHER", 0.0)
    monkeypatch.setattr(reduction, "TOGETHER_S", 0.0)


def alone_without_time(monkeypatch):
    monkeypatch.setattr(reduction, "FLOOR_S", 0.0)
    monkeypatch.setattr(reduction, "SHARE_OF_SEARCH", reduction.RESERVED)


def no_time(monkeypatch):
    without_time(monkeypatch)
    monkeypatch.setattr(reduction, "IDLE_S", 0.0)
    monkeypatch.setattr(attribution, "FLOOR_S", 0.0)
    monkeypatch.setattr(attribution, "SHARE_OF_SEARCH", 0.0)


def test_time_that_is_over_keeps_what_is_undecided(project, monkeypatch):
    no_time(monkeypatch)
    made = project()
    made.tune()
    assert (made.stored.reduction.after, made.stored.reduction.undecided) == (12, 12)
    assert {entry.standing for entry in made.stored.attribution.without} == {"left out"}


def test_nothing_that_changes_no_machine_code_is_stored_even_where_the_time_is_over(project, monkeypatch):
    without_time(monkeypatch)
    made = project()
    made.tune()
    assert made.knobs == {*USELESS, *EFFECTS}
    reduction = made.stored.reduction
    assert (reduction.by_code, reduction.by_objective, reduction.undecided) == (5, 0, len(USELESS))
    assert "idle" not in {entry.standing for entry in made.stored.attribution.without}


def test_what_there_was_no_time_for_alone_is_tried_together(project, monkeypatch):
    alone_without_time(monkeypatch)
    made = project()
    made.tune()
    assert made.knobs == set(EFFECTS)
    assert (made.stored.reduction.by_objective, made.stored.reduction.undecided) == (len(USELESS), 0)


@pytest.mark.parametrize("wider", ["-one", "-other"])
def test_of_two_that_do_the_same_the_one_that_reaches_farther_goes(tmp_path, wider):
    def seconds(controls: ControlsFile) -> float:
        return 1e-3 * (0.5 if {"-one", "-other"} & set(controls.knobs) else 1)

    builder = FakeBuilder()
    benchmark = fake_benchmark(tmp_path, builder, space=flags("-one", "-other"))
    winner = builder.render(Candidate({"-one": "", "-other": ""}))
    reduced = reduce(benchmark, winner, -0.7, FakePool(seconds=seconds), width=lambda knobs: int(wider in knobs))
    assert set(reduced.smallest.knobs) == {"-one", "-other"} - {wider}


def test_a_killed_reduction_begins_again_after_the_search_that_is_kept(project):
    made = project()

    class Killed(FakePool):
        def prepare(self, numbers, benchmark):
            if any("reducing" in line for line in made.progress.said):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made.tune(Killed(seconds=times(EFFECTS)))
    assert any("reducing" in line for line in made.progress.said) and not (made.root / "acf").exists()
    made.tune()
    assert "resuming: 2 evaluations of an earlier run are kept; --tune-fresh starts anew" in made.progress.said
    assert made.knobs == set(EFFECTS)


def test_committed_controls_are_reduced_once(project):
    made = project()
    made.tune(reduce=False)
    assert made.stored.reduction is None and len(made.knobs) > 10
    made.tune()
    assert made.knobs == set(EFFECTS)
    assert made.tune(evaluations=1).verdict == "PROVEN" and not any("reducing" in line for line in made.progress.said)
    assert made.stored.reduction.before > 10


def test_the_next_search_goes_on_with_what_stayed_undecided(project):
    made = project()
    with pytest.MonkeyPatch.context() as first:
        no_time(first)
        report = made.tune()
    assert len(made.knobs) == 12 and made.stored.reduction.is_open
    assert any(
        "none was left out; 12 stay undecided (pytest --tune with a larger --tune-budget goes on)" in note
        for note in report.notes
    )
    assert made.tune().verdict == "TUNED"
    assert made.knobs == set(EFFECTS) and made.stored.reduction.before == 12
    assert not any("head to head" in line for line in made.progress.said)
    assert made.tune().verdict == "PROVEN" and not any("reducing" in line for line in made.progress.said)


def test_what_is_decided_later_and_stays_is_recorded_with_what_it_brings(project):
    made = project(flags(*EFFECTS))
    with pytest.MonkeyPatch.context() as first:
        no_time(first)
        made.tune()
    assert made.stored.reduction.undecided == 2
    assert made.tune().verdict == "PROVEN"
    assert made.stored.reduction.undecided == 0 and made.knobs == set(EFFECTS)
    assert {entry.standing for entry in made.stored.attribution.without} == {"measured"}


def test_a_reduced_set_that_loses_too_much_in_the_proof_is_not_stored(project):
    made = project()

    class Treacherous(FakePool):
        def block(self, number, benchmark, arms, workload, plan):
            self.proving = arms["baseline"] is None and len(plan.quads) > 1
            return super().block(number, benchmark, arms, workload, plan)

        def _seconds_of(self, controls):
            smaller = controls is not None and "-useless0" not in controls.knobs
            return super()._seconds_of(controls) * (1.2 if smaller and self.proving else 1.0)

    made.tune(Treacherous(seconds=times(EFFECTS)))
    reduction = made.stored.reduction
    assert (reduction.before, reduction.after, reduction.by_code) == (12, 7, 5)
    assert reduction.kept_larger == "2 controls lost more than the budget allows"


def test_a_finalist_that_wins_against_a_better_looking_one_is_reduced_too(project):
    """The play-off takes another one for the best than the proof, which decides."""
    made = project(flags(*USELESS, *EFFECTS) | {"-luck": literal("", knockout_prob=0.5)})

    class Lucky(FakePool):
        def block(self, number, benchmark, arms, workload, plan):
            self.proving = arms["baseline"] is None and len(plan.quads) > 1
            return super().block(number, benchmark, arms, workload, plan)

        def _seconds_of(self, controls):
            has_luck = controls is not None and "-luck" in controls.knobs
            return super()._seconds_of(controls) * ((4.0 if self.proving else 0.5) if has_luck else 1.0)

    made.tune(Lucky(seconds=times(EFFECTS)), evaluations=3)
    assert made.knobs == set(EFFECTS) and made.stored.reduction.before > 2


def test_the_smaller_set_is_proven_in_processes_that_did_not_choose_it(project):
    made, pool = project(), FakePool(seconds=times(EFFECTS))
    made.tune(pool)
    closed = pool.asked.index(("close", 0, ""))
    small = "-fast\n-good\n"
    assert ("block", 0, small) in pool.asked[:closed]
    assert {("block", number, small) for number in range(8, 16)} <= set(pool.asked[closed:])
    assert pool.asked.count(("close", 0, "")) == 1


def test_a_smaller_set_that_is_wrong_on_a_draw_is_not_stored_and_the_artifact_says_so(project):
    made = project(stress=8)

    def draws(options, worker, seed):
        is_small = options and "-useless0" not in options
        return EvaluationFailed("tuned", "wrong", "1 != 2") if is_small else Draw()

    pool = FakePool(seconds=times(EFFECTS), draws=draws, touched=Touched(frozenset({"kernel"}), frozenset(), drew=True))
    made.tune(pool)
    reduction = made.stored.reduction
    assert made.knobs == {*USELESS, *EFFECTS} and (reduction.after, reduction.by_code) == (7, 5)
    assert reduction.kept_larger == "2 controls were wrong on a draw of acf.rng"
    assert (reduction.by_objective, reduction.undecided) == (0, 0)


@pytest.mark.parametrize("step", ["reducing", "measuring what each"])
def test_a_worker_that_does_not_start_again_costs_no_proven_winner(project, step):
    made = project()

    class Ending(FakePool):
        def prepare(self, numbers, benchmark):
            if numbers.start == 0 and any(step in line for line in made.progress.said):
                raise NoWorker("the worker ended")

    made.tune(Ending(seconds=times(EFFECTS)))
    assert made.stored.outcome == "tuned" and set(EFFECTS) <= made.knobs
    assert made.stored.attribution is None
    assert any("the worker ended" in line for line in made.progress.said)


def test_the_fronts_committed_point_is_the_reduced_one(project):
    made = project(objectives=[minimize("runtime"), minimize("code_bytes")])
    made.tune(builder=FakeBuilder(code=lambda knobs: {"kernel": "x" * (100 - 40 * ("-fast" in knobs))}))
    assert made.knobs == {"-fast"} and made.stored.reduction.before > 1
    assert made.stored.controls.file in {point.controls.file for point in made.stored.front}


def test_what_the_attribution_resolves_is_no_longer_undecided(project, monkeypatch):
    without_time(monkeypatch)
    made = project(flags("-useless0", *EFFECTS))
    made.tune()
    assert (made.stored.reduction.after, made.stored.reduction.undecided) == (3, 1)


@pytest.mark.parametrize("objective", ["runtime", "code_bytes"])
def test_a_reduced_set_that_is_wrong_on_a_draw_is_not_stored_and_the_draw_is_told(project, objective):
    def sized(knobs: Knobs) -> dict[str, str]:
        return {"kernel": code(knobs)["kernel"].ljust(400)[: 400 - 40 * ("-fast" in knobs) - 3 * ("-good" in knobs)]}

    made = project(objectives=[minimize(objective)])
    drawing = Touched(frozenset({"kernel"}), frozenset(), drew=True)
    wrong = EvaluationFailed("tuned", "wrong", "1 != 2")
    pool = FakePool(
        seconds=times(EFFECTS), touched=drawing,
        draws=lambda options, worker, seed: wrong if options and "-useless0" not in options and seed == 3 else Draw(),
    )  # fmt: skip
    report = made.tune(pool, FakeBuilder(code=sized))
    reduction = made.stored.reduction
    assert (reduction.before, reduction.after, reduction.by_code, reduction.undecided) == (12, 7, 5, 0)
    assert len(made.knobs) == 7
    assert reduction.kept_larger == "2 controls were wrong on a draw of acf.rng"
    assert made.stored.claims[0].stress.usable == 32
    (dropped,) = [note for note in report.notes if "dropped out" in note]
    assert "wrong on draw 3 of acf.rng" in dropped and "--tune-draw=3 --tune-from=.compileiq/" in dropped


def test_what_each_control_brings_is_told_with_intervals_that_hold_together(project):
    made = project(flags("-fast", "-good"))
    report = made.tune()
    told = {entry.knobs: entry for entry in made.stored.attribution.without}
    assert told["-fast",].loss == pytest.approx(math.log(2), abs=2e-3)
    assert told["-good",].low < math.log(1.25) < told["-good",].high
    assert made.stored.attribution.comparisons == 5
    assert "without -fast 2 times slower, without -good 1.25" in report.notes


def test_parts_that_stand_in_for_each_other_are_tried_together(project, monkeypatch):
    made = project(flags("-one", "-other"))
    without_time(monkeypatch)  # else one of them would go
    either = lambda controls: 1e-3 * (0.5 if controls and controls.knobs else 1)  # noqa: E731
    made.tune(FakePool(seconds=either), evaluations=1)
    last = made.stored.attribution.without[-1]
    assert set(last.knobs) == {"-one", "-other"} and last.loss == pytest.approx(math.log(2), abs=2e-3)


@pytest.mark.parametrize(("brings", "kept"), [({"blob", "-good"}, (True, {"-good"})), ({"-good"}, (False, {"-good"})),
                                              ({"blob"}, (True, set()))])  # fmt: skip
def test_named_knobs_shrink_beside_an_acf_which_is_one_part_itself(tmp_path, brings, kept):
    def seconds(controls: ControlsFile) -> float:
        named = {*controls.knobs, *(["blob"] if controls.kind == "blob" else [])}
        return 1e-3 * 0.7 ** len(named & brings)

    builder = FakeBuilder(acf_line="ptxas13.3")
    space = [PtxasSearchSpace(), flags("-good", *USELESS)]
    benchmark = fake_benchmark(tmp_path, builder, space=space)
    winner = builder.render(Candidate(dict.fromkeys(("-good", *USELESS), ""), b"acf"))
    reduced = reduce(benchmark, winner, -0.5, FakePool(seconds=seconds))
    assert (reduced.smallest.kind == "blob", set(reduced.smallest.knobs)) == kept
    assert reduced.counts == (7, 7, len(kept[1]) + kept[0])


def test_an_acf_beside_a_knob_that_the_space_always_has_is_left_out_alone(tmp_path):
    """The baseline has no value for the knob, so that the ACF is the only part."""
    builder = FakeBuilder(acf_line="ptxas13.3", code=code)
    space = [PtxasSearchSpace(), {"warps": choice([8, 16])}]
    benchmark = fake_benchmark(tmp_path, builder, space=space, objectives=[minimize("code_bytes")])
    winner = builder.render(Candidate({"warps": 16}, b"acf"))
    reduced = reduce(benchmark, winner, -0.5)
    assert (reduced.smallest.kind, dict(reduced.smallest.knobs)) == ("options", {"warps": 16})
    assert (reduced.counts[0], reduced.counts[2], reduced.undecided) == (2, 1, frozenset())


def test_what_the_search_saw_to_change_no_machine_code_is_not_built_one_by_one(tmp_path):
    builder = FakeBuilder(code=code)
    benchmark = fake_benchmark(tmp_path, builder, space=flags(*IDLE, *EFFECTS), objectives=[minimize("code_bytes")])
    winner, twin = (
        builder.render(Candidate(dict.fromkeys(names, ""))) for names in ((*IDLE, *EFFECTS), (*IDLE[:1], *EFFECTS))
    )
    digest = benchmark.builds.get(winner).digest
    twins = {key_of(benchmark, winner, digest): [winner.knobs, twin.knobs]}
    builder.built.clear()
    reduced = reduce(benchmark, winner, -0.5, aliases=twins)
    assert reduced.counts == (7, 3, 1) and builder.built[0] == twin.data.decode()
    assert not [options for options in builder.built if sum(name in options for name in IDLE) > 1]


def test_the_few_that_the_search_shows_to_matter_are_tried_before_each_of_the_many(tmp_path, monkeypatch):
    """Forty options that change the code and bring nothing: each left out by itself would take forty builds."""
    many = tuple(f"-useless{number}" for number in range(40))
    builder = FakeBuilder(code=code)
    benchmark = fake_benchmark(tmp_path, builder, space=flags(*many, *EFFECTS))
    winner = builder.render(Candidate(dict.fromkeys((*many, *EFFECTS), "")))
    random = Random(0)
    drawn = [{name: "" for name in (*many, *EFFECTS) if random.random() < 0.5} for _ in range(60)]
    seen = [(knobs, math.log(times(EFFECTS)(builder.render(Candidate(knobs))))) for knobs in drawn]
    asked, trial = [], reduction.ReductionTrial
    monkeypatch.setattr(trial, "holds", lambda self, kept, holds=trial.holds: asked.append(kept) or holds(self, kept))
    reduced = reduce(benchmark, winner, -0.9, FakePool(seconds=times(EFFECTS)), seen=seen)
    assert set(reduced.smallest.knobs) == set(EFFECTS) and len(asked) < 20


def test_many_that_bring_nothing_counted_are_left_out_at_once(tmp_path):
    """Forty options that change the code and not its size: each left out by itself would take forty builds."""
    many = tuple(f"-useless{number}" for number in range(40))

    def sizes(knobs: Knobs) -> dict[str, str]:
        has = "".join(str(int(name in knobs)) for name in many)
        return {"kernel": has + "x" * (100 - 40 * ("-fast" in knobs) - 3 * ("-good" in knobs))}

    builder = FakeBuilder(code=sizes)
    benchmark = fake_benchmark(tmp_path, builder, space=flags(*many, *EFFECTS), objectives=[minimize("code_bytes")])
    winner = builder.render(Candidate(dict.fromkeys((*many, *EFFECTS), "")))
    random = Random(0)
    drawn = [{name: "" for name in (*many, *EFFECTS) if random.random() < 0.5} for _ in range(60)]
    seen = [(knobs, math.log(len(sizes(knobs)["kernel"]))) for knobs in drawn]
    builder.built.clear()
    reduced = reduce(benchmark, winner, -0.9, seen=seen, varies=False)
    assert set(reduced.smallest.knobs) == set(EFFECTS) and len(builder.built) < 16
    assert (reduced.counts, reduced.undecided) == ((42, 42, 2), frozenset())
