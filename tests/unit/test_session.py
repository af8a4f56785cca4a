"""The tuned part of a run: who claims which artifact, whose outcome counts, and how the run ends."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from pytest_compileiq import Cc
from pytest_compileiq.outcome import ItemReport, Verdict
from pytest_compileiq.session import UNHEALTHY, Session
from pytest_compileiq.store.store import Store
from pytest_compileiq.testing.fakes import fake_settings
from tests.unit.artifacts import CONTROLS, make_artifact

NODEID = "test_k.py::test_k"


@pytest.fixture
def session(tmp_path):
    def make(**settings) -> Session:
        config = SimpleNamespace(
            pluginmanager=SimpleNamespace(get_plugin=lambda name: None), rootpath=tmp_path, stash={}
        )
        return Session(config, fake_settings(tmp_path, **settings))

    return make


def item(nodeid: str = NODEID, *arguments, **marker):
    mark = pytest.mark.tune(*(arguments or (Cc("k.c"),)), **marker).mark
    name = nodeid.rpartition("::")[2]
    return SimpleNamespace(nodeid=nodeid, name=name, get_closest_marker=lambda _: mark, user_properties=[], stash={})


def plain(nodeid: str):
    return SimpleNamespace(nodeid=nodeid, name="test_plain", get_closest_marker=lambda _: None)


def test_report(*, name: str | None = "k", became: ItemReport | None = None, failed: bool = False):
    report = SimpleNamespace(
        nodeid=NODEID, location=("test_k.py", 3, "test_k"), failed=failed, longreprtext="AssertionError"
    )
    if name is not None:
        report.compileiq_name = name
    if became is not None:
        report.compileiq = became.to_json()
    return report


test_report.__test__ = False


def became(verdict: Verdict, nodeid: str = NODEID, name: str = "k") -> ItemReport:
    return ItemReport(nodeid, name, "x86-64-gcc12", verdict, "as it is")


def stored(session: Session, name: str) -> None:
    Store(session.settings.acf_dir).write(name, make_artifact(), controls=[CONTROLS], samples=())


# ── who claims which artifact ────────────────────────────────────────────────────────────────────────────────────


def test_two_tests_of_one_name_are_both_refused_and_each_names_the_other(session):
    run = session()
    first, second = item("a.py::test_k"), item("b.py::test_k")
    run.collected([first, plain("a.py::test_plain"), second])
    with pytest.raises(pytest.fail.Exception, match=r"a.py::test_k and b.py::test_k both claim the artifact 'k'"):
        run.set_up(first)
    with pytest.raises(pytest.fail.Exception, match=r"b.py::test_k and a.py::test_k both claim"):
        run.set_up(second)


def test_another_name_settles_it(session):
    run = session()
    tests = [item("a.py::test_k"), item("b.py::test_k", name="other")]
    run.collected(tests)
    for each in tests:
        run.set_up(each)


def test_a_bad_marker_fails_its_test_by_name_and_claims_nothing(session):
    run = session()
    bad, good = item("a.py::test_k", "kernel.c"), item("b.py::test_k")
    run.collected([bad, good])
    assert run.name_of(bad) is None
    with pytest.raises(pytest.fail.Exception, match=r"^a\.py::test_k: "):
        run.set_up(bad)
    run.set_up(good)


# ── whose outcome counts ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_item_that_runs_again_counts_once_with_its_last_outcome(session):
    run = session()
    stored(run, "k")
    run.received(test_report(became=became(Verdict.INCONCLUSIVE)))
    run.received(test_report(became=became(Verdict.PROVEN)))
    run.received(test_report(name=None))  # its teardown
    assert run.finish(complete=True) is None
    assert [report.verdict for report in run.report.items] == [Verdict.PROVEN]


# ── how the run ends ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("orphans", "code"), [("warn", None), ("fail", UNHEALTHY), ("ignore", None)])
def test_an_artifact_that_no_test_claimed_is_an_orphan(session, orphans, code):
    run = session(orphans=orphans)
    stored(run, "k")
    stored(run, "left")
    run.received(test_report(became=became(Verdict.PROVEN)))
    assert run.finish(complete=True) == code
    assert run.report.orphans == ([] if orphans == "ignore" else ["left"])


@pytest.mark.parametrize(
    ("complete", "settings", "reports"),
    [
        (False, {}, []),  # some tests were not selected
        (True, {"tune": True}, []),
        (True, {}, [test_report(name="")]),  # a bad marker: nobody knows what it would have claimed
    ],
)
def test_nothing_is_called_an_orphan_where_not_every_test_had_its_say(session, complete, settings, reports):
    run = session(orphans="fail", **settings)
    stored(run, "left")
    for report in reports:
        run.received(report)
    assert run.finish(complete=complete) is None
    assert run.report.orphans == []


def test_a_broken_file_of_an_artifact_whose_test_did_not_run_ends_the_run_unhealthy(session):
    run = session(orphans="ignore")
    stored(run, "k")
    next((run.settings.acf_dir / "k").glob("*.toml")).write_text("schema = 1\n")
    assert run.finish(complete=True) == UNHEALTHY
    assert len(run.report.store_problems) == 1
    run.received(test_report(became=became(Verdict.CORRUPT)))  # else the test itself fails
    assert run.finish(complete=True) is None


def test_a_report_that_cannot_be_written_is_a_usage_error_and_a_line(session, tmp_path):
    (tmp_path / "file").touch()
    run = session(report=tmp_path / "file" / "report.json")
    assert run.finish(complete=True) == pytest.ExitCode.USAGE_ERROR
    assert run.report.store_problems == [
        f"{tmp_path}/file could not be written for the report: File exists; name another file"
    ]


def test_the_report_holds_what_became_of_each(session, tmp_path):
    run = session(report=tmp_path / "report.json")
    run.received(test_report(became=became(Verdict.STALE), failed=True))
    run.finish(complete=False)
    assert [each["verdict"] for each in json.loads((tmp_path / "report.json").read_text())["items"]] == ["STALE"]


def test_on_github_the_line_of_a_failure_is_marked_relative_to_the_workspace(session, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path.parent))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    run, lines = session(), []
    monkeypatch.setattr("pytest_compileiq.system.printing.Terminal.command", lambda self, line: lines.append(line))
    run.received(test_report(became=became(Verdict.REFUTED), failed=True))
    run.finish(complete=False)
    assert lines[0] == "" and lines[1].startswith(f"::error file={tmp_path.name}/test_k.py,line=4,")
    assert "REFUTED" in (tmp_path / "summary.md").read_text()


def test_a_summary_that_cannot_be_written_costs_a_warning(session, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    run, lines = session(), []
    monkeypatch.setattr("pytest_compileiq.system.printing.Terminal.command", lambda self, line: lines.append(line))
    assert run.finish(complete=False) is None
    assert lines == ["", "::warning title=acf::the job summary could not be written: Is a directory"]


def test_a_run_that_measured_nothing_closes_nothing(session):
    run = session()
    run.close()
    run.close()
