"""One tuned benchmark from its baseline to what is stored, driven by fakes: every way it can end."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from pytest_compileiq import choice, literal, minimize
from pytest_compileiq.config import Budget
from pytest_compileiq.errors import TuneFailed
from pytest_compileiq.model import PARAMS
from pytest_compileiq.rules.gate import LOOKS
from pytest_compileiq.store.status import promote, retire
from pytest_compileiq.store.store import Store
from pytest_compileiq.testing.fakes import (
    FakeBuilder,
    FakePool,
    FakeProgress,
    by_options,
    fake_benchmark,
    fake_settings,
)
from pytest_compileiq.timing.conditions import Others
from pytest_compileiq.tuning.run import tune
from pytest_compileiq.workers.pool import EvaluationFailed
from tests.unit.pools import UncheckedPool

SPACE = {"-O": choice([2, 3], knockout_prob=0.3), "-fast": literal("", knockout_prob=0.5)}
GAIN = {"-fast": 8e-4}
ALONE = by_options({"-O": 2e-3, "-fast": 9e-4})
TOGETHER = by_options({"-O3\n-fast": 6e-4, "-O": 2e-3, "-fast": 9e-4})
FAKE = "fake-fake1"
COUNT = itertools.count()


class Bench:
    """A project of one benchmark, on fakes."""

    def __init__(self, root, **marker) -> None:
        self.root = root
        self.runs = 0
        self.store = Store(root / "acf")
        self.marker = {"space": SPACE, **marker}
        self.builder = FakeBuilder()
        (root / "kernel.src").write_text(self.builder.source)
        self.progress = FakeProgress()

    def tune(self, pool=None, *, budget=12, builder=None, **settings):
        self.runs += 1
        builds = self.root.parent / f"{self.root.name}-builds-{self.runs}"
        benchmark = fake_benchmark(self.root, builder or FakeBuilder(), builds_in=builds, **self.marker)
        return tune(
            benchmark,
            settings=fake_settings(self.root, budget=Budget(evaluations=budget), **settings),
            store=self.store,
            pool=pool or FakePool(seconds=by_options(GAIN)),
            progress=self.progress,
        )

    @property
    def stored(self):
        return self.store.read("kernel", FAKE)

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted((self.root / "acf").rglob("*")) if path.is_file()}


@pytest.fixture
def bench(tmp_path) -> Bench:
    return Bench(tmp_path)


# ── the first search ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_proven_winner_is_stored_with_its_controls_samples_and_record(bench):
    report = bench.tune()
    assert report.verdict == "TUNED"
    assert bench.stored.outcome == "tuned" and "-fast" in bench.stored.controls.knobs
    assert len(report.wrote) == 3 == len(bench.files())
    assert bench.stored.search.evaluations == bench.stored.search.duplicates + bench.stored.search.invalid + 5


def test_a_better_finalist_that_was_not_proven_is_told(bench):
    report = bench.tune(UncheckedPool(seconds=by_options({"-O3\n-fast": 5e-5, **GAIN})))
    assert report.verdict == "TUNED" and bench.stored.controls.knobs != {"-O": 3, "-fast": ""}
    (note,) = [note for note in report.notes if note.startswith("a better finalist was not proven: ")]
    assert "requires checked calls" in note


def test_a_gain_that_replays_may_not_hold_is_told_when_it_is_stored(bench):
    small = bench.tune(FakePool(seconds=by_options({"-fast": 0.985e-3})))
    assert small.verdict == "TUNED"
    assert any("min_speedup=1.02 claims no gain so small" in note for note in small.notes)


def test_a_noisy_machine_is_told_before_the_search_and_after_it(bench, monkeypatch):
    monkeypatch.setattr("os.getloadavg", lambda: (9.0, 9.0, 9.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("pytest_compileiq.timing.conditions.others_in", lambda window_s: Others(1.7, ("cc1plus",)))
    load = "other processes (cc1plus) keep 1.7 of 2 cores busy: stop them"
    small = bench.tune(FakePool(seconds=by_options({"-fast": 0.985e-3})))
    assert bench.progress.said[0] == f"this machine is noisy, and small gains are not proven on it: {load}"
    assert f"this machine is noisy for these claims: {load}" in small.notes
    retire(bench.store, "kernel", FAKE, "small")
    assert not any("noisy" in note for note in bench.tune().notes), "a large gain stands it"


def test_a_second_sample_that_cannot_be_taken_writes_nothing_and_keeps_the_search(bench):
    class Ending(FakePool):
        def block(self, number, *rest):
            if number >= LOOKS[0]:
                raise EvaluationFailed("baseline", "crash", "SIGBUS")
            return super().block(number, *rest)

    with pytest.raises(TuneFailed, match="the baseline failed while it was measured"):
        bench.tune(Ending(seconds=by_options(GAIN)))
    assert not bench.files()
    assert bench.tune().verdict == "TUNED"
    assert any("evaluations of an earlier run are kept" in line for line in bench.progress.said)


def test_nothing_better_is_stored_as_a_baseline_with_its_reason(bench):
    report = bench.tune(FakePool(seconds=lambda controls: 2e-3 if controls else 1e-3))
    assert (report.verdict, bench.stored.outcome) == ("BASELINE", "baseline")
    spent = bench.stored.search.evaluations
    assert bench.stored.reason == f"no valid candidate of {spent} evaluations was better than the baseline"
    assert list(bench.files()) == [f"{FAKE}.toml"]


def test_what_is_wrong_only_when_it_is_measured_again_is_named_in_the_reason(bench):
    looks = Counter()

    class Failures(dict):
        def get(self, options, default=None):
            looks[options] += 1
            again = options and looks[options] > 2  # the search checks once and takes one block
            return EvaluationFailed("tuned", "wrong", "1 != 2") if again else default

    report = bench.tune(FakePool(seconds=by_options(GAIN), failures=Failures()))
    assert (report.verdict, report.message) == ("BASELINE", bench.stored.reason)
    assert re.fullmatch(
        r"no valid candidate of \d+ evaluations was better than the baseline; of the best, measured again, \d × wrong: 1 != 2",
        report.message,
    )


def test_a_stored_baseline_does_not_repeat_what_the_machine_was_like_that_day(bench, monkeypatch):
    busy = "other processes keep 1.6 of 2 cores busy: stop them"
    monkeypatch.setattr("pytest_compileiq.proof.prove.cpu_conditions", lambda: [busy])
    report = bench.tune(FakePool(noise=0.2, _random=Random(1)))  # of which something looks better
    assert report.verdict == "BASELINE"
    assert any(busy in note for note in report.notes)
    assert bench.stored.reason == "no finalist was proven faster by the last look" == report.message


def test_a_slow_build_is_told_before_the_silence_of_the_next(bench, monkeypatch):
    monkeypatch.setattr("pytest_compileiq.tuning.baseline._SLOW_S", 0.0)
    bench.tune()
    assert bench.progress.said[0] == "a build takes 0 s; the baseline's is made again in a copy of the project"


FAILS = {
    "does not build": (
        {"builder": FakeBuilder(refusals={"": "kernel.src: no"})},
        None,
        "the baseline does not build: kernel.src: no",
    ),
    "is not correct": (
        {},
        FakePool(failures={"": EvaluationFailed("baseline", "wrong", "1 != 2")}),
        r"not usable on workload 'default' \(wrong\): 1 != 2",
    ),
    "is not reproducible": (
        {"builder": FakeBuilder(code=lambda knobs: {"kernel": str(next(COUNT))})},
        None,
        "different machine code in kernel",
    ),
}


@pytest.mark.parametrize("what", FAILS)
def test_a_baseline_that_cannot_be_tuned_fails_and_writes_nothing(bench, what):
    given, pool, said = FAILS[what]
    with pytest.raises(TuneFailed, match=said):
        bench.tune(pool, **given)
    assert not (bench.root / "acf").exists()


def test_lost_evidence_writes_nothing_and_the_search_is_kept(bench):
    with pytest.raises(TuneFailed, match="nothing was written: 50% of the quads were dropped"):
        bench.tune(FakePool(seconds=by_options(GAIN), drops=lambda quad: quad > 1))
    assert not (bench.root / "acf").exists()
    bench.tune()
    assert any("resuming: " in line for line in bench.progress.said)


def test_a_search_of_failures_alone_writes_nothing(bench):
    builder = FakeBuilder(code=lambda knobs: {"kernel": str(knobs), "other": f"other {knobs}"})
    with pytest.raises(TuneFailed, match="candidates were not measured, since their controls also change other"):
        bench.tune(builder=builder)
    assert not (bench.root / "acf").exists()


def test_ctrl_c_before_anything_was_measured_is_a_ctrl_c_and_later_proves_the_best_so_far(bench):
    with pytest.raises(KeyboardInterrupt):
        bench.tune(FakePool(interrupt_at=2))
    assert not (bench.root / "acf").exists()
    report = bench.tune(FakePool(seconds=by_options(GAIN), interrupt_at=5), fresh=True)
    assert report.interrupted
    assert any("interrupted after" in note for note in report.notes)


# ── an incumbent ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_healthy_incumbent_is_tried_first_and_kept_when_nothing_beats_it(bench):
    bench.tune()
    before = bench.files()
    pool = FakePool(seconds=by_options(GAIN), noise=0)  # its equals are no better
    report = bench.tune(pool)
    assert report.verdict == "PROVEN"
    assert "-fast" in next(options for what, _, options in pool.asked if what == "block" and options)
    assert {name for name in bench.files() if name.endswith(".acf")} == {
        name for name in before if name.endswith(".acf")
    }


def test_a_better_winner_takes_its_place_only_after_a_duel(bench):
    bench.tune(FakePool(seconds=ALONE))
    better = FakePool(seconds=TOGETHER)
    report = bench.tune(better, budget=30)
    assert report.verdict == "TUNED" and bench.stored.controls.knobs == {"-O": 3, "-fast": ""}
    assert "head to head with the committed controls" in bench.progress.said


def test_controls_that_another_device_holds_a_claim_for_are_not_replaced(bench):
    bench.tune(FakePool(seconds=ALONE))
    artifact = bench.stored
    elsewhere = artifact.claims[0].model_copy(update={"device": "H100"})
    bench.store.write(
        "kernel", artifact.model_copy(update={"claims": (*artifact.claims, elsewhere)}), controls=[], samples=()
    )
    report = bench.tune(FakePool(seconds=TOGETHER), budget=30)
    assert report.verdict == "KEPT"
    assert "unmeasured on H100, which holds a claim" in report.message


def test_a_stale_incumbent_is_replaced_by_a_baseline(bench):
    bench.tune()
    changed = FakeBuilder(code=lambda knobs: {"kernel": f"other {sorted(knobs)}"}, source="two")
    (bench.root / "kernel.src").write_text("two")
    report = bench.tune(FakePool(seconds=lambda controls: 2e-3 if controls else 1e-3), builder=changed)
    assert report.verdict == "BASELINE" and bench.stored.outcome == "baseline"


# ── --tune-budget=0 ──────────────────────────────────────────────────────────────────────────────────────────────


def test_budget_0_proves_what_is_committed_and_writes_the_claim(bench):
    bench.tune()
    report = bench.tune(budget=0)
    assert report.verdict == "PROVEN" and bench.stored.outcome == "tuned"


def test_budget_0_with_nothing_committed_or_withdrawn_controls_is_refused(bench):
    with pytest.raises(TuneFailed, match="holds none: run pytest --tune"):
        bench.tune(budget=0)
    bench.tune()
    retire(bench.store, "kernel", FAKE, "wrong on odd sizes")
    with pytest.raises(TuneFailed, match=r"were withdrawn \(wrong on odd sizes\)"):
        bench.tune(budget=0)


def test_budget_0_of_controls_that_do_not_hold_here_writes_nothing(bench):
    bench.tune()
    before = bench.files()
    with pytest.raises(TuneFailed, match="are not proven here"):
        bench.tune(FakePool(seconds=lambda controls: 1.1e-3 if controls else 1e-3), budget=0)
    wrong = EvaluationFailed("tuned", "wrong", "1 != 2")
    options = next(path for path in (bench.root / "acf").rglob("*.acf")).read_text()
    with pytest.raises(TuneFailed, match=r"not (proven here|usable)|fail on workload"):
        bench.tune(FakePool(failures={options: wrong}), budget=0)
    assert bench.files() == before


def test_budget_0_of_controls_that_inline_a_function_away_is_refused_before_anything_is_measured(bench):
    bench.tune()
    inlining = FakeBuilder(code=lambda knobs: {"kernel": repr(knobs), **({} if knobs else {"inlined": "x"})})
    pool = FakePool(seconds=by_options(GAIN))
    with pytest.raises(TuneFailed, match="committed controls cannot be compared: only one arm has code for inlined"):
        bench.tune(pool, budget=0, builder=inlining)
    assert not any(options for _, _, options in pool.asked)


@pytest.mark.parametrize(("compiler", "what"), [("fake", "machine code"), (PARAMS, "packages, sources or defaults")])
def test_budget_0_drops_another_devices_claim_of_other_code_and_says_of_what_it_was(bench, compiler, what):
    def made_of(source: str) -> FakeBuilder:
        named = replace(FakeBuilder().compiler, name=compiler)
        return FakeBuilder(code=lambda knobs: {"kernel": f"{source} {sorted(knobs)}"}, source=source, compiler=named)

    bench.tune(builder=made_of("one"))
    elsewhere = bench.stored.claims[0].model_copy(update={"device": "H100"})
    both = bench.stored.model_copy(update={"claims": (*bench.stored.claims, elsewhere)})
    bench.store.write("kernel", both, controls=[], samples=())
    bench.tune(budget=0, builder=made_of("one"))
    assert {claim.device for claim in bench.stored.claims} == {claim.device for claim in both.claims}
    (bench.root / "kernel.src").write_text("two")
    report = bench.tune(budget=0, builder=made_of("two"))
    assert f"the claim of H100 was of other {what} and is dropped: prove it there" in report.notes
    assert "H100" not in {claim.device for claim in bench.stored.claims}


def test_a_promoted_point_is_proven_by_budget_0(tmp_path):
    sizes = FakeBuilder(code=lambda knobs: {"kernel": "x" * (100 - 10 * len(knobs))})
    bench = Bench(tmp_path, objectives=[minimize("runtime"), minimize("code_bytes")])
    bench.tune(builder=sizes)
    assert bench.stored.front
    promote(bench.store, "kernel", FAKE, 0)
    assert bench.stored.outcome == "promoted"
    report = bench.tune(builder=replace(sizes), budget=0)
    assert report.verdict == "PROVEN" and bench.stored.outcome == "tuned"


@pytest.mark.parametrize("budget", [12, 0])
def test_what_could_not_be_seen_of_the_device_is_told_with_what_was_proven(bench, budget):
    bench.tune()
    report = bench.tune(FakePool(seconds=by_options(GAIN), remarked=("nobody looked",)), budget=budget)
    assert report.notes.count("nobody looked") == 1
