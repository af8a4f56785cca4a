"""A night on fakes: what is opened, searched, proven and left, in which order, and what the next night finds."""

from __future__ import annotations

import json
import signal
import threading
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from pytest_compileiq import literal
from pytest_compileiq.config import Budget
from pytest_compileiq.errors import LeftAlone, StoreError, TuneFailed
from pytest_compileiq.outcome import ItemReport, Verdict
from pytest_compileiq.progress import SearchCounts
from pytest_compileiq.store.store import Store
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool, fake_benchmark, fake_settings
from pytest_compileiq.tuning.night import Night
from pytest_compileiq.tuning.night_budget import NightBudget, NightEntry, NightTask
from pytest_compileiq.workers.pool import EvaluationFailed
from tests.unit.project_on_fakes import GAIN, SPACE


class Watch:
    """Keeps what it is told, and every report."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.doing: list[str] = []

    def show(self, night) -> None:
        doing = night().doing
        if doing not in self.doing[-1:]:
            self.doing.append(doing)

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(autouse=True)
def _heard():
    """Have Ctrl-C heard also where a shell's background has this process ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "kernel.src").write_text("one")
    return tmp_path


def entry(root, name: str, *, builder=None, **marker) -> NightEntry:
    def make():
        made = fake_benchmark(
            root, builder or FakeBuilder(), builds_in=root / "builds" / name, name=name, **{"space": SPACE, **marker}
        )
        return replace(made, nodeid=f"test_kernel.py::test_{name}")

    return NightEntry(f"test_kernel.py::test_{name}", name, make)


def failing(name: str) -> NightEntry:
    def make():
        raise TuneFailed(f"{name} does not build")

    return NightEntry(f"test_kernel.py::test_{name}", name, make)


def spend(root, *entries: NightEntry, total=24, pool=None, **settings) -> Night:
    total = total if isinstance(total, Budget) else Budget(evaluations=total)
    night = Night(
        fake_settings(root, **settings), Store(root / "acf"), [pool or FakePool(seconds=GAIN)], Watch(), total, entries,
        settings.pop("most_failures", 0),
    )  # fmt: skip
    night.spend()
    return night


def verdicts(night: Night) -> dict[str, object]:
    return {
        nodeid.partition("test_")[2].partition("test_")[2]: end.verdict if isinstance(end, ItemReport) else type(end)
        for nodeid, end in night.endings.items()
    }


def test_all_are_opened_searched_and_proven_once(project):
    night = spend(project, entry(project, "a"), entry(project, "b"))
    assert verdicts(night) == {"a": Verdict.TUNED, "b": Verdict.TUNED}
    doing = night.watch.doing
    assert doing[:2] == ["opening a", "opening b"]
    assert sorted(what for what in doing if what.startswith("proving")) == ["proving a", "proving b"]
    rows = night.report().rows
    assert sum(row.evaluations for row in rows) <= 24
    assert [row.standing for row in rows] == ["closed", "closed"]
    assert not (project / ".compileiq" / "night.json").exists()


def test_several_devices_serve_a_benchmark_each_and_share_one_budget(project):
    at_once = threading.Barrier(2, timeout=30)
    crews: dict[str, set[str]] = {}

    class Device(FakePool):
        def block(self, number, benchmark, arms, workload, plan):
            if benchmark.name not in crews and len(crews) < 2:
                crews[benchmark.name] = set()
                at_once.wait()  # nobody gets past it alone
            crews.setdefault(benchmark.name, set()).add(self.crew)
            return super().block(number, benchmark, arms, workload, plan)

    pools = [Device(seconds=GAIN, crew=name) for name in ("first", "second")]
    names = ["a", "b", "c"]
    night = Night(
        fake_settings(project), Store(project / "acf"), pools, Watch(), Budget(evaluations=40),
        [entry(project, name) for name in names],
    )  # fmt: skip
    night.spend()
    assert verdicts(night) == dict.fromkeys(names, Verdict.TUNED), night.endings
    assert sum(row.evaluations for row in night.report().rows) <= 40
    assert set.union(*crews.values()) == {"first", "second"}


def test_a_benchmark_that_cannot_be_tuned_costs_a_sentence(project):
    night = spend(project, failing("a"), entry(project, "b"))
    assert verdicts(night) == {"a": TuneFailed, "b": Verdict.TUNED}
    assert "a: failed: a does not build" in night.watch.said


def test_a_search_that_judges_nothing_ends_alone(project):
    bad = FakePool(failures={text: EvaluationFailed("tuned", "wrong", "no") for text in ("-O2\n", "-O3\n", "-fast\n")})
    night = spend(project, entry(project, "a"), entry(project, "b"), pool=bad)
    assert set(verdicts(night)) == {"a", "b"}


def test_what_has_no_room_is_not_reached_and_comes_next_time(project):
    entries = [entry(project, name) for name in "abc"]
    first = spend(project, *entries, total=9)
    assert verdicts(first) == {"a": Verdict.TUNED, "b": Verdict.TUNED, "c": LeftAlone}
    opened = json.loads((project / ".compileiq/night.json").read_text())["opened"]
    assert len(opened) == len(set(opened)) == 2
    before = {path: path.stat().st_mtime_ns for path in project.glob("acf/*/*.toml")}
    second = spend(project, *entries, total=9)
    assert {name: str(verdict) for name, verdict in verdicts(second).items()} == dict.fromkeys("abc", "TUNED")
    assert before.items() <= {path: path.stat().st_mtime_ns for path in project.glob("acf/*/*.toml")}.items()
    assert not any(what in ("opening a", "proving a") and "proving" in what for what in second.watch.doing)
    assert second.report().rows[0].why == "TUNED: closed by an earlier run of this night"


def test_fresh_opens_again_what_was_closed(project):
    entries = [entry(project, name) for name in "abc"]
    spend(project, *entries, total=9)
    again = spend(project, *entries, total=24, fresh=True)
    assert "proving a" in again.watch.doing


@pytest.mark.parametrize("at", [1, 30, 100, 200])
def test_ctrl_c_proves_what_is_promising_without_making_it_small(project, at):
    """At the opening, in a search or in a proof."""
    pool = FakePool(seconds=GAIN, interrupt_at=at)
    wide = SPACE | {f"-f{number}": literal("", knockout_prob=0.5) for number in range(9)}
    night = spend(
        project, entry(project, "a", space=wide), entry(project, "b", space=wide), total=40, pool=pool, reduce=True
    )
    assert night.interrupted
    assert set(verdicts(night)) == {"a", "b"}
    reports = [end for end in night.endings.values() if isinstance(end, ItemReport)]
    assert all(report.verdict is Verdict.TUNED and not report.interrupted for report in reports)
    assert bool(reports) == (at > 1)
    assert (project / ".compileiq" / "night.json").exists()


def test_what_a_killed_run_stored_is_not_proven_again(project, monkeypatch):
    """The kill comes between the store and the note of it."""

    def killed(*_arguments):
        raise SystemExit

    monkeypatch.setattr("pytest_compileiq.tuning.night_state.NightBook.close", killed)
    with pytest.raises(SystemExit):
        spend(project, entry(project, "a"), total=8)
    monkeypatch.undo()
    (stored,) = project.glob("acf/a/*.toml")
    before = stored.read_bytes()
    night = spend(project, entry(project, "a"), total=40)
    assert night.report().rows[0].why.endswith("which was killed then")
    assert "proving a" not in night.watch.doing
    assert stored.read_bytes() == before


@pytest.mark.parametrize("left", [Budget(evaluations=24), Budget(seconds=1e-6)])
def test_a_night_that_was_killed_while_it_proved_goes_on_with_that(project, monkeypatch, left):
    """Its budget is spent by then, or its time over: what was kept for the proofs is theirs."""

    def killed(*_arguments, **_named):
        raise SystemExit

    monkeypatch.setattr("pytest_compileiq.tuning.run.TuningRun.close", killed)
    wide = SPACE | {f"-f{number}": literal("", knockout_prob=0.5) for number in range(9)}
    entries = [entry(project, name, space=wide) for name in "ab"]
    with pytest.raises(SystemExit):
        spend(project, *entries, total=24)
    monkeypatch.undo()
    night = spend(project, *entries, total=left)
    assert verdicts(night) == {"a": Verdict.TUNED, "b": Verdict.TUNED}
    assert not any(doing.startswith("searching") for doing in night.watch.doing)
    assert not (project / ".compileiq" / "night.json").exists()


@pytest.mark.parametrize(("every_s", "is_kept"), [(0.0, True), (3600.0, False)])
def test_what_a_turn_spent_is_kept_while_it_goes_on(project, monkeypatch, every_s, is_kept):
    """Not only when an opening, a turn or a proof ends; and no more often than told."""
    state, kept = project / ".compileiq" / "night.json", []

    class Killed(Watch):
        def show(self, night) -> None:
            if night().doing == "opening a":
                kept.append(json.loads(state.read_text())["spent_s"] if state.exists() else 0.0)

    monkeypatch.setattr("pytest_compileiq.tuning.night_state.SAVED_EVERY_S", every_s)
    monkeypatch.setattr("tests.unit.tuning.test_night.Watch", Killed)
    spend(project, entry(project, "a"))
    of_evaluations = kept[:4]
    assert of_evaluations == sorted(of_evaluations)
    assert all(of_evaluations) == is_kept


def test_an_artifact_that_is_gone_is_made_again(project):
    entries = [entry(project, name) for name in "abc"]
    spend(project, *entries, total=9)
    for path in project.glob("acf/a/*"):
        path.unlink()
    assert "proving a" in spend(project, *entries, total=24).watch.doing
    assert list(project.glob("acf/a/*.toml"))


def test_a_changed_benchmark_is_opened_again(project):
    spend(project, entry(project, "a"), entry(project, "b"), entry(project, "c"), total=9)
    night = spend(project, entry(project, "a", builder=FakeBuilder(source="two")), entry(project, "b"), total=12)
    assert "proving a" in night.watch.doing
    assert "proving b" not in night.watch.doing


@pytest.mark.parametrize(
    "state", ['{"spent_s": "long"}', '{"spent_s": -1e9}', '{"spent_s": 1e308}', '{"evaluations": -1}']
)
def test_a_broken_state_is_one_sentence(project, state):
    spend(project, entry(project, "a"), entry(project, "b"), entry(project, "c"), total=9)
    (project / ".compileiq" / "night.json").write_text(state)
    with pytest.raises(StoreError, match=r"is no state of a night.*remove it, and the night starts anew"):
        spend(project, entry(project, "a"))


def test_failures_stop_a_night_where_pytest_was_told_so(project):
    night = Night(
        fake_settings(project), Store(project / "acf"), [FakePool(seconds=GAIN)], Watch(), Budget(evaluations=40),
        [failing("a"), entry(project, "b")], most_failures=1,
    )  # fmt: skip
    night.spend()
    assert verdicts(night) == {"a": TuneFailed, "b": LeftAlone}


def test_of_a_time_each_benchmark_has_its_share(project):
    night = spend(project, entry(project, "a"), entry(project, "b"), total=Budget(seconds=600))
    report = night.report()
    assert report.unit == "s"
    assert verdicts(night) == {"a": Verdict.TUNED, "b": Verdict.TUNED}
    assert 0 < sum(row.share for row in report.rows) <= report.spent / report.total + 1e-6


@pytest.mark.parametrize("is_small", [True, False])
def test_a_proof_comes_before_a_small_winner(project, monkeypatch, is_small):
    if not is_small:
        monkeypatch.setattr("pytest_compileiq.tuning.night_budget.closing_seconds", lambda *_arguments: 1e6)
    night = spend(project, entry(project, "a"), total=Budget(seconds=600), reduce=True)
    report = night.endings["test_kernel.py::test_a"]
    assert report.verdict is Verdict.TUNED
    assert ("stored as it was found: there was no time to make it small" in report.notes) == (not is_small)


@pytest.mark.parametrize(("seconds", "small"), [(550, 2), (450, 1)])
def test_a_winner_is_made_small_if_the_others_can_still_be_proven(project, monkeypatch, seconds, small):
    """A proof is estimated at 200 s, with a small winner at 300 s. The first of two leaves the other its 200 s."""
    monkeypatch.setattr(
        "pytest_compileiq.tuning.night_budget.closing_seconds", lambda _run, _start, reduces: 200 + 100 * reduces
    )
    monkeypatch.setattr("pytest_compileiq.tuning.night_budget.MOST_RESERVED", 0.0)
    monkeypatch.setattr("pytest_compileiq.tuning.night_budget.NightTask.is_promising", True)
    total = Budget(seconds=seconds)
    night = spend(project, entry(project, "a"), entry(project, "b"), total=total, reduce=True)
    reports = night.endings.values()
    assert sum(not any("no time to make it small" in note for note in report.notes) for report in reports) == small


def test_what_proofs_need_is_kept_back_from_the_searches(project, monkeypatch):
    """At most half of the whole, and nothing where no gain was seen."""
    monkeypatch.setattr("pytest_compileiq.tuning.night_budget.closing_seconds", lambda *_arguments: 1e6)
    kept = {}
    for name, pool in {"gain": FakePool(seconds=GAIN), "none": FakePool()}.items():
        monkeypatch.setattr(Night, "_next_turn", lambda self, name=name: kept.update({name: self.report().reserved}))
        spend(project, entry(project, name), total=Budget(seconds=600), pool=pool)
    assert kept == {"gain": 300.0, "none": 0.0}


@pytest.mark.parametrize(("batch_s", "goes_on"), [(0.0, True), (700.0, False)])
def test_a_batch_that_does_not_fit_in_a_time_is_not_begun(project, monkeypatch, batch_s, goes_on):
    monkeypatch.setattr("pytest_compileiq.tuning.night_budget.NightTask.batch_s", batch_s)
    (row,) = spend(project, entry(project, "a"), total=Budget(seconds=600)).report().rows
    assert (row.standing, row.evaluations > 4) == ("closed", goes_on)


def test_a_batch_is_estimated_by_those_before_it():
    task = NightTask(failing("a"), True, ExitStack())
    tally = SearchCounts()
    task.run = SimpleNamespace(search=SimpleNamespace(tally=tally))
    tally.end()
    assert task.batch_s == 0.0
    tally.evaluations, tally.earlier_s = 6, 9.0
    assert task.batch_s == pytest.approx(6.0, abs=0.1)


def test_a_benchmark_whose_opening_does_not_fit_is_not_opened(project, monkeypatch):
    """Those before it took 700 s each."""
    monkeypatch.setattr(
        NightBudget,
        "opening_s",
        property(lambda self: 700.0 * any(task.standing == "searching" for task in self.tasks)),
    )
    night = spend(project, entry(project, "a"), entry(project, "b"), total=Budget(seconds=600))
    assert verdicts(night) == {"a": Verdict.TUNED, "b": LeftAlone}


def test_shares_count_the_earlier_runs_of_a_night_as_what_is_spent_does(project):
    spend(project, entry(project, "a"), total=Budget(seconds=600), pool=FakePool(seconds=GAIN, interrupt_at=30))
    path = project / ".compileiq" / "night.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps(state | {"spent_s": 300.0, "seconds": dict.fromkeys(state["seconds"], 240.0)}))
    report = spend(project, entry(project, "a"), total=Budget(seconds=600)).report()
    assert report.spent == pytest.approx(300, abs=30)
    assert report.rows[0].share == pytest.approx(0.4, abs=0.05)


@pytest.mark.parametrize(
    ("total", "why"),
    [
        (Budget(evaluations=4), "the budget was spent"),
        (Budget(evaluations=5), "the budget has no room for another batch"),
        (Budget(seconds=600), "the rest of the budget was kept for proofs"),
    ],
)
def test_why_a_search_ended_is_what_holds(project, monkeypatch, total, why):
    monkeypatch.setattr("pytest_compileiq.tuning.night_budget.NightTask.batch_s", 700.0)
    monkeypatch.setattr("pytest_compileiq.tuning.night_budget.closing_seconds", lambda *_arguments: 1.0)
    (row,) = spend(project, entry(project, "a"), total=total).report().rows
    assert row.why == f"TUNED: {why}"


def test_a_time_that_is_over_leaves_the_searches_to_the_next_night(project):
    def seconds(controls):
        return GAIN(controls)

    slow = FakePool(seconds=seconds)
    night = spend(project, entry(project, "a"), total=Budget(seconds=1e-6), pool=slow)
    assert verdicts(night) == {"a": LeftAlone}
    assert night.report().doing == "unfinished: 1 not reached"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(GAIN, "the time was over before its proof"), (lambda _controls: 1e-3, "no gain worth a proof")],
)
def test_a_search_that_the_time_ends_is_told_with_what_it_saw(project, monkeypatch, seconds, said):
    prove = Night._prove

    def at_the_end(night):
        night._budget.earlier_s += 600
        prove(night)

    monkeypatch.setattr(Night, "_prove", at_the_end)
    monkeypatch.setattr("pytest_compileiq.tuning.night_budget.NightTask.batch_s", 700.0)
    night = spend(project, entry(project, "a"), total=Budget(seconds=600), pool=FakePool(seconds=seconds))
    (row,) = night.report().rows
    assert (row.standing, night.report().doing) == ("not reached", "unfinished: 1 not reached")
    assert row.why.startswith(said)
