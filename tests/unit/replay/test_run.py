"""A normal run of one benchmark, driven by fakes: each thing that ends it, in the order of the checks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from msgspec import structs

from pytest_compileiq import choice, literal, minimize
from pytest_compileiq.errors import NoWorker
from pytest_compileiq.replay.committed import Integrity
from pytest_compileiq.replay.run import Replay
from pytest_compileiq.rules.gate import LOOKS, REFUTE_AGAIN_S
from pytest_compileiq.rules.staleness import proof_of
from pytest_compileiq.store.status import retire
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool, by_options, fake_settings
from pytest_compileiq.timing.registry import find_device_or_none
from pytest_compileiq.workers.pool import EvaluationFailed
from tests.unit.project_on_fakes import FAKE, GAIN, GCC, ProjectOnFakes, WithoutLicences, measuring


@pytest.fixture
def project(tmp_path) -> ProjectOnFakes:
    made = ProjectOnFakes(tmp_path)
    made.tune()
    return made


def test_what_holds_is_proven_with_every_check_in_order(project):
    report, cause = project.replay()
    assert (report.verdict, cause) == ("PROVEN", None)
    assert [(check.name, check.status) for check in report.checks] == [
        (name, "passed") for name in ("integrity", "staleness", "correctness", "claim", "speed")
    ]


OTHER = FakeBuilder(code=lambda knobs: {"kernel": f"other {sorted(knobs.items())}"}, source="two")
ENDS = {
    "the gain is gone": ({"pool": FakePool(seconds=lambda controls: 1e-3)}, "REFUTED", "the gain is gone"),
    "the tuned arm fails": ({"pool": FakePool(seconds=GAIN, failures={"-fast\n": EvaluationFailed("tuned", "crash", "SIGSEGV")})}, "REFUTED", "SIGSEGV"),
    "the baseline fails": ({"pool": FakePool(seconds=GAIN, failures={"-fast\n": EvaluationFailed("baseline", "crash", "SIGBUS")})}, "INCONCLUSIVE", "the baseline arm failed while it was measured (crash): SIGBUS"),
    "others disturb": ({"pool": FakePool(seconds=GAIN, failures={"-fast\n": EvaluationFailed(None, "disturbed", "others")})}, "INCONCLUSIVE", "the measured arm failed while it was measured (disturbed): others"),
    "too many quads are dropped": ({"pool": FakePool(seconds=GAIN, drops=lambda quad: quad > 1)}, "INCONCLUSIVE", "dropped"),
    "no worker starts": ({"pool": FakePool(seconds=GAIN, failures={"-fast\n": NoWorker("no module named x")})}, "NO WORKER", "no module named x"),
    "the machine code is another": ({"builder": OTHER}, "STALE", "kernel.src (changed): the machine code is another, in kernel"),
    "the compiler refuses the controls": ({"builder": FakeBuilder(refusals={"-fast\n": "no -fast"})}, "STALE", "no longer takes the committed controls: no -fast"),
    "the baseline does not build": ({"builder": FakeBuilder(refusals={"": "syntax"})}, "FAILED", "the baseline does not build: syntax"),
    "another architecture is asked for": ({"builder": FakeBuilder(architecture="wide", target="wide-fake1")}, "STALE", "the test asks for wide-fake1"),
    "another compiler's line": ({"builder": FakeBuilder(target="fake-fake2")}, "STALE", "the compiler here makes fake-fake2"),
    "the space no longer holds the knobs": ({"marker": {"space": {"-O": choice([2, 3])}}}, "CORRUPT", "outside the space that the test declares"),
    "an objective is gone": ({"marker": {"objectives": [minimize("code_bytes")]}}, "STALE", "benchmark"),
}  # fmt: skip
ENDED = {  # by what, for the history; anything else says nothing of how long the artifact holds
    "the gain is gone": ("gain",),
    "the tuned arm fails": ("wrong",),
    "the machine code is another": ("kernel",),
    "the compiler refuses the controls": ("compiler",),
    "another compiler's line": ("compiler",),
    "an objective is gone": ("benchmark",),
}


@pytest.mark.parametrize("what", ENDS)
def test_each_thing_that_ends_a_replay_has_its_verdict_and_a_remedy(tmp_path, what):
    made = ProjectOnFakes(tmp_path)
    made.tune(FakePool(seconds=by_options({"-O": 2e-3, "-fast": 8e-4})))
    given, verdict, said = ENDS[what]
    if "pool" in given:
        given = {**given, "pool": replace(given["pool"], asked=[])}
    report, cause = made.replay(**given, inconclusive="fail")
    assert (report.verdict, report.failed, cause) == (verdict, True, None)
    assert said in report.message
    assert report.remedy
    assert report.ends == ENDED.get(what, ())
    if report.ends:
        assert report.proof == proof_of(made.store.read("kernel", FAKE))


def test_a_wrong_answer_is_the_tests_own_exception(project):
    def wrong(acf):
        assert acf.is_baseline, "1 != 2"

    report, cause = project.replay(body=wrong)
    assert report.verdict == "WRONG" and isinstance(cause, AssertionError)
    assert report.ends == ("wrong",)


def test_a_missing_artifact_fails_or_runs_the_baseline(tmp_path):
    made = ProjectOnFakes(tmp_path)
    report, _ = made.replay()
    assert (report.verdict, report.failed) == ("MISSING", True)
    ran = []
    report, _ = made.replay(body=lambda acf: ran.append(acf.is_baseline) or measuring(acf), missing="warn")
    assert (report.verdict, report.failed, ran) == ("MISSING", False, [True])


def test_a_stale_artifact_that_may_warn_runs_the_baseline_only(project):
    ran = []
    report, _ = project.replay(
        builder=OTHER, body=lambda acf: ran.append(acf.is_baseline) or measuring(acf), stale="warn"
    )
    assert (report.verdict, report.failed, ran) == ("STALE", False, [True])
    assert report.remedy.endswith("or search anew: pytest --tune test_kernel.py::test_kernel")
    assert [code.entry for code in report.moved] == ["kernel"]


def test_what_is_undecided_and_may_warn_has_run_its_body_and_says_what_to_do(project):
    ran = []
    report, _ = project.replay(
        FakePool(seconds=GAIN, drops=lambda quad: quad > 1), inconclusive="warn",
        body=lambda acf: ran.append(acf.is_baseline) or measuring(acf),
    )  # fmt: skip
    assert (report.verdict, report.failed, ran) == ("INCONCLUSIVE", False, [False])
    assert report.remedy.startswith("measure again on a quiet machine")
    refuted, _ = project.replay(FakePool(seconds=lambda controls: 1e-3), inconclusive="warn")
    assert (refuted.failed, refuted.remedy) == (True, "tune anew: pytest --tune test_kernel.py::test_kernel")


def test_a_replay_draws_other_orders_each_time_but_for_a_given_seed(project):
    def plans(**settings):
        taken = []

        class Watching(FakePool):
            def block(self, number, benchmark, arms, workload, plan):
                taken.append(plan)
                return super().block(number, benchmark, arms, workload, plan)

        report, _ = project.replay(Watching(seconds=GAIN), **settings)
        seeds.append(report.measured[0].seed)
        return taken

    seeds = []
    given, again, fresh, other = plans(seed=7), plans(seed=7), plans(seed=None), plans(seed=None)
    assert seeds[:2] == [7, 7] and len(set(seeds)) == 3, "the report records what the order follows from"
    assert given == again and given != fresh != other
    for eight in (given, fresh):
        assert sum(plan.outer == "tuned" for plan in eight[:8]) == 4
        assert sum(max(plan.checks.values()) > 0 for plan in eight[:8]) == 4


def test_a_comment_is_cosmetic(project):
    report, _ = project.replay(builder=FakeBuilder(source="two"))
    assert report.verdict == "PROVEN"
    assert any("the machine code is the same" in note for note in report.notes)


@pytest.mark.parametrize(("driver", "said"), [(None, False), ("580.65.06", True)])
def test_another_driver_than_the_claims_is_told(project, monkeypatch, driver, said):
    device = structs.replace(find_device_or_none("cpu"), driver=driver)
    monkeypatch.setattr("pytest_compileiq.replay.measured.find_device_or_none", lambda kind: device)
    report, _ = project.replay()
    told = [note for note in report.notes if "driver" in note]
    assert (report.verdict, bool(told)) == ("PROVEN", said)
    assert project.replay(FakePool(seconds=lambda controls: 1e-3))[0].ends == (("driver",) if driver else ("gain",))
    assert not told or told[0].startswith("proven under driver unknown, measured now under 580.65.06;")


def test_another_environment_of_the_run_is_told_and_refutes_nothing(project, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    report, _ = project.replay()
    (told,) = [note for note in report.notes if "environment" in note]
    assert report.verdict == "PROVEN"
    assert told == "measured in another environment than proven: OMP_NUM_THREADS was not set and is '3'"
    slower, _ = project.replay(FakePool(seconds=lambda controls: 1e-3))
    assert (slower.verdict, slower.ends) == ("INCONCLUSIVE", ())
    assert "--tune-budget=0" in slower.remedy


def test_a_gate_that_was_wrong_too_often_on_this_machine_is_told(project):
    (project.root / ".compileiq").mkdir(exist_ok=True)
    counts = {find_device_or_none("cpu").name: {"trials": 50, "proven": 9, "alpha": 0.01}}
    (project.root / ".compileiq" / "calibration.json").write_text(json.dumps(counts))
    report, _ = project.replay()
    assert any("do not trust this machine's gate: 9 of 50 equal pairs" in note for note in report.notes)


def test_nothing_is_measured_when_only_a_replay_is_asked_for(project):
    pool = FakePool(seconds=GAIN)
    report, _ = project.replay(pool, check="replay")
    assert report.verdict == "REPLAYED" and not pool.asked
    assert ("speed", "not run") in [(check.name, check.status) for check in report.checks]


def test_nothing_is_read_when_checks_are_off(project):
    (project.root / "acf" / "kernel" / f"{FAKE}.toml").write_text("not toml")
    report, _ = project.replay(check="off")
    assert report.verdict == "UNCHECKED"


def test_a_claim_of_another_device_alone_is_replayed_and_with_measure_undecided(project):
    artifact = project.store.read("kernel", FAKE)
    moved = tuple(claim.model_copy(update={"device": "H100"}) for claim in artifact.claims)
    rows = [replace(row, device="H100") for _, taken in project.store.read_samples("kernel", artifact) for row in taken]
    project.store.write("kernel", artifact.model_copy(update={"claims": moved}), controls=[], samples=rows)
    assert project.replay()[0].verdict == "REPLAYED"
    report, _ = project.replay(check="measure", inconclusive="fail")
    assert report.verdict == "INCONCLUSIVE" and "only for H100" in report.message


def test_exact_claims_are_compared_before_a_missing_device_is_told(tmp_path):
    sizes = FakeBuilder(code=lambda knobs: {"kernel": "x" * (80 if "-fast" in knobs else 100)}, native="no such device")
    made = ProjectOnFakes(tmp_path, objectives=[minimize("code_bytes")])
    made.tune(builder=sizes)
    loads = lambda acf: acf.build().load()  # noqa: E731
    assert made.replay(builder=sizes, body=loads)[0].verdict == "PROVEN"
    for no_device, failed in (("skip", False), ("fail", True)):
        report, _ = made.replay(builder=sizes, body=loads, no_device=no_device)
        assert (report.verdict, report.failed) == ("NO DEVICE", failed)
    path = made.root / "acf" / "kernel" / f"{FAKE}.toml"
    path.write_text(path.read_text().replace("tuned_value = 80", "tuned_value = 70"))
    report, _ = made.replay(builder=sizes, body=loads, no_device="skip")
    assert (report.verdict, report.failed) == ("CORRUPT", True)


def test_retired_controls_are_never_applied(project):
    retire(project.store, "kernel", FAKE, "wrong on odd sizes")
    ran = []
    report, _ = project.replay(body=lambda acf: ran.append(acf.is_baseline) or measuring(acf))
    assert (report.verdict, report.message, ran) == ("RETIRED", "withdrawn: wrong on odd sizes", [True])
    assert not report.remedy


def test_promoted_controls_are_not_applied_before_their_proof_which_is_the_remedy(project):
    artifact, reason = project.store.read("kernel", FAKE), "point 2 of the front"
    promoted = artifact.model_copy(update={"outcome": "promoted", "claims": (), "reason": reason})
    project.store.write("kernel", promoted, controls=[], samples=())
    ran = []
    report, _ = project.replay(body=lambda acf: ran.append(acf.is_baseline) or measuring(acf))
    assert (report.verdict, report.message, ran) == ("PROMOTED", reason, [True])
    assert report.remedy == "prove it: pytest --tune --tune-budget=0 test_kernel.py::test_kernel"


# ── why no new search is needed ──────────────────────────────────────────────────────────────────────────────────

CURRENT = {
    "it holds": ({}, "kernel still holds for fake-fake1"),
    "the machine code is another": ({"builder": OTHER}, None),
    "another compiler's line": ({"builder": FakeBuilder(target="fake-fake2")}, None),
}


@pytest.mark.parametrize("what", CURRENT)
def test_an_artifact_that_still_holds_needs_no_new_search(project, what):
    given, why = CURRENT[what]
    benchmark = project.benchmark(**given)
    run = Replay(benchmark, fake_settings(project.root), Integrity(benchmark, project.store), measuring, FakePool)
    assert run.why_current() == why


def test_an_artifact_of_another_machine_is_no_reason_to_search_here(project):
    artifact = project.store.read("kernel", FAKE)
    compiler = artifact.compiler.model_copy(update={"architecture_from": "machine"})
    samples = [row for _, rows in project.store.read_samples("kernel", artifact) for row in rows]
    project.store.write("kernel", artifact.model_copy(update={"compiler": compiler}), controls=[], samples=samples)
    native = replace(FakeBuilder().compiler, architecture_from="machine")
    elsewhere = FakeBuilder(architecture="wide", target="wide-fake1", compiler=native)
    benchmark = project.benchmark(elsewhere)
    run = Replay(benchmark, fake_settings(project.root), Integrity(benchmark, project.store), measuring, FakePool)
    assert "wide-fake1" in run.why_current()


def test_a_withdrawn_artifact_needs_a_new_search(project):
    retire(project.store, "kernel", FAKE, "wrong on odd sizes")
    benchmark = project.benchmark()
    run = Replay(benchmark, fake_settings(project.root), Integrity(benchmark, project.store), measuring, FakePool)
    assert run.why_current() is None


def test_a_baseline_outcome_follows_the_same_rows_untimed(tmp_path):
    made = ProjectOnFakes(tmp_path)
    made.tune(FakePool(seconds=lambda controls: 2e-3 if controls else 1e-3))
    pool = FakePool()
    report, _ = made.replay(pool)
    assert report.verdict == "BASELINE" and not pool.asked
    artifact = made.store.read("kernel", FAKE)
    assert report.message == artifact.reason
    made.store.write("kernel", artifact.model_copy(update={"reason": None}), controls=[], samples=())
    assert made.replay()[0].message == "nothing was found to beat the defaults"
    assert made.replay(builder=OTHER)[0].verdict == "STALE"


def test_a_neighbour_that_the_controls_change_fails(tmp_path):
    grown = FakeBuilder(code=lambda knobs: {"kernel": str(sorted(knobs)), "other": "x"})
    made = ProjectOnFakes(tmp_path)
    made.tune(builder=grown)
    both = FakeBuilder(code=lambda knobs: {"kernel": str(sorted(knobs)), "other": str("-fast" in knobs)})

    def one_of_them(acf):
        acf.build()
        acf.used.add("kernel")
        acf.measure(lambda: None)

    report, _ = made.replay(builder=both, body=one_of_them)
    assert report.verdict == "STALE" and [code.entry for code in report.moved] == ["other"]


@pytest.mark.parametrize(("seconds", "verdict"), [(GAIN, "PROVEN"), (lambda controls: 1e-3, "REFUTED")])
def test_what_could_not_be_seen_of_the_device_is_told_whatever_the_verdict(project, seconds, verdict):
    report, _ = project.replay(FakePool(seconds=seconds, remarked=("nobody looked",)))
    assert (report.verdict, report.notes.count("nobody looked")) == (verdict, 1)


class Recovering(FakePool):
    """A pool on which the gain is gone until its workers are replaced by new ones."""

    def close(self) -> None:
        super().close()
        self.seconds = GAIN


def test_a_gain_is_refuted_by_two_measurements_a_minute_apart(project):
    gone = FakePool(seconds=lambda controls: 1e-3)
    report, _ = project.replay(gone)
    assert (report.verdict, report.failed) == ("REFUTED", True)
    assert "measured twice, a minute apart" in report.message and gone.timer.waited == REFUTE_AGAIN_S
    kinds = [what for what, _, _ in gone.asked]
    assert kinds[: kinds.index("close")].count("block") == kinds[kinds.index("close") :].count("block") == LOOKS[0]
    passing = Recovering(seconds=lambda controls: 1e-3)
    report, _ = project.replay(passing)
    assert (report.verdict, report.failed) == ("PROVEN", False)
    (told,) = (note for note in report.notes if "a minute before refuted it" in note)
    assert "the gain is gone" in told
    again, _ = project.replay()
    assert not any("refuted" in note for note in again.notes)


# ── one draw of a stress again ───────────────────────────────────────────────────────────────────────────────────


def test_a_draw_is_repeated_with_the_tuned_arm_before_the_baseline_twice(project):
    ran = []

    def drawing(acf):
        measuring(acf)
        ran.append(("baseline" if acf.is_baseline else "tuned", acf.rng.random()))

    report, _ = project.replay(body=drawing, draw=5)
    assert (report.verdict, report.message) == ("UNCHECKED", "both arms hold on draw 5, and nothing else was checked")
    assert [arm for arm, _ in ran[-3:]] == ["tuned", "baseline", "baseline"]
    assert len({number for _, number in ran[-3:]}) == 1 != len({number for _, number in ran})


@pytest.mark.parametrize(
    ("builder", "verdict"), [(WithoutLicences(compiler=GCC), "WRONG"), (FakeBuilder(compiler=GCC), "UNCHECKED")]
)
def test_a_draw_is_held_to_bits_where_the_controls_promise_them(tmp_path, builder, verdict):
    made = ProjectOnFakes(tmp_path, space={"-funroll-loops": literal("", knockout_prob=0.5)})
    made.tune(FakePool(seconds=by_options({"-funroll-loops": 8e-4})), builder)

    def off_by_an_ulp(acf):
        measuring(acf)
        acf.compare("sum", [1.0 if acf.is_baseline else 1.0 + 2**-52], rtol=1e-6)

    report, cause = made.replay(builder=builder, body=off_by_an_ulp, draw=5)
    assert (report.verdict, report.failed, cause) == (verdict, verdict == "WRONG", None)
    if report.failed:
        assert report.message == (
            "the test fails with the controls on workload 'default': output 'sum', element 0 is 1.0 in the baseline and "
            "1.0000000000000002 in the tuned arm, and its controls promise the same bits"
        )
        assert report.remedy == "tune anew: pytest --tune test_kernel.py::test_kernel"


def test_a_tuned_arm_that_writes_nothing_is_found_when_its_draw_is_repeated(project):
    memory = [0.0]

    def writing(acf):
        measuring(acf)
        if acf.is_baseline:
            memory[0] = acf.rng.random()
        acf.compare("out", memory)

    report, _ = project.replay(body=writing, draw=5)
    assert report.verdict == "WRONG" and "the test fails with the controls" in report.message


def test_a_draw_on_which_the_baseline_fails_does_not_blame_the_controls(project):
    def failing(acf):
        assert acf.rng.random() < 0, "no kernel's fault"

    report, cause = project.replay(body=failing, draw=5)
    assert "the test fails with the baseline" in report.message and isinstance(cause, AssertionError)


def test_a_draw_that_cannot_run_here_does_not_hold(project):
    report, _ = project.replay(builder=FakeBuilder(native="no such device"), draw=5)
    assert (report.verdict, report.message) == ("NO DEVICE", "no such device")
    assert project.replay(builder=FakeBuilder(native="no such device"), draw=5, no_device="fail")[0].failed
