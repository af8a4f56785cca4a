"""``acf history`` through the command: from git, from reports of real runs, and what moved them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.cli.main import main
from pytest_compileiq.outcome import Built, Circumstances, End, ItemReport, Measured, RunReport, Verdict
from pytest_compileiq.report.values import write_json
from pytest_compileiq.rules.staleness import proof_of
from pytest_compileiq.store.store import Store
from tests.repository import git
from tests.unit.artifacts import CONTROLS, NEW_CODE, NEW_SOURCES, TARGET, make_artifact, make_rows, measured_claim


def measured(date: str, baseline=2.0, tuned=1.0, device="cpu", verdict=Verdict.PROVEN, **changes) -> RunReport:
    """A report of one run of one artifact."""
    of = {"compiler": "gcc 12.2.0", "baseline_code": "b" * 64, "tuned_code": "c" * 64, "machine": "Linux 6.1"} | changes
    numbers = baseline, tuned, baseline / tuned, baseline / tuned - 0.01, baseline / tuned + 0.01
    item = ItemReport(
        "t.py::t", "kernel", TARGET, verdict, "", built=Built(of["compiler"], of["baseline_code"], of["tuned_code"]),
        measured=(Measured(device, "w", "runtime", "minimize", verdict, *numbers),),
    )  # fmt: skip
    return RunReport([item], run=Circumstances(f"{date}T03:00:00Z", "1" * 40, of["machine"]))


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def acf(capsys):
    """Run ``acf``: what it printed, or complained of where it does not end with 0."""

    def run(*arguments: str, code: int = 0) -> str:
        assert main(list(arguments)) == code
        printed = capsys.readouterr()
        return printed.out if code == 0 else printed.out + printed.err

    return run


def commit(home: Path, **changes) -> None:
    store = Store(home / "acf")
    artifact = make_artifact(**{"claims": (measured_claim("cpu"),), **changes})
    store.write("kernel", artifact, controls=[CONTROLS], samples=make_rows())
    git(home, "add", "-A")
    git(home, "commit", "-qm", "x")


def nights(home: Path, acf, days: int, since: int = 999, by=(0.0, 0.0), **changed) -> None:
    """Add the reports of November's nights; from day ``since`` on both arms take more by these shares."""
    noise = 1 + np.random.default_rng(0).normal(0, 0.004, size=(days, 2))
    paths = []
    for day in range(days):
        moved = day >= since
        paths.append(home / f"report-{day}.json")
        date = f"2026-{10 + day // 28}-{1 + day % 28:02}"
        arms = 2 * noise[day][0] * (1 + by[0] * moved), noise[day][1] * (1 + by[1] * moved)
        write_json(measured(date, *arms, **(changed if moved else {})), paths[-1])
    acf("history", "add", *map(str, paths))


def lines(acf, *arguments: str) -> list[dict]:
    content = json.loads(acf("history", "--format", "json", *arguments))
    assert content["schema"] == 1
    return content["lines"]


def test_git_alone_tells_every_proof_once_and_with_its_commit(home, acf):
    commit(home)
    first = git(home, "rev-parse", "HEAD")
    commit(home, benchmark="moved.py::test")  # the same claim
    commit(home, claims=(measured_claim("cpu").model_copy(update={"speedup": 1.15}),))
    (line,) = lines(acf)
    assert [each["speedup"] for each in line["observations"]] == [1.1, 1.15]
    assert [each["source"] for each in line["observations"]] == ["proof", "proof"]
    assert line["observations"][0]["commit"] == first
    assert not (home / "acf-history").exists()
    assert "PROVEN, committed" in acf("history", "kernel")


def test_a_version_that_cannot_be_read_hides_no_other(home, acf):
    commit(home)
    (path,) = (home / "acf").glob("kernel/*.toml")
    whole = path.read_text()
    path.write_text("schema = 1\nnonsense")
    git(home, "commit", "-qam", "broken")
    path.write_text(whole.replace("speedup = 1.1", "speedup = 1.12"))
    git(home, "commit", "-qam", "mended")
    assert [each["speedup"] for each in lines(acf)[0]["observations"]] == [1.1, 1.12]


@pytest.mark.slow
def test_a_report_of_a_real_run_says_when_on_what_and_how_long(proven_again, acf, monkeypatch):
    made, _ = proven_again
    monkeypatch.chdir(made.root)
    report = json.loads((made.root / "report.json").read_text())
    (taken,) = report["items"][0]["measured"]
    assert taken["baseline"] / taken["tuned"] == pytest.approx(taken["speedup"], rel=1e-6)
    assert report["run"]["date"].startswith("20")
    assert "2 of 2 records added" in acf("history", "add", "report.json")
    (line,) = lines(acf)
    (seen,) = line["observations"]
    assert (seen["name"], seen["source"], seen["baseline"]) == ("kernel", "replay", taken["baseline"])
    made.pytest("--acf-check=replay", "--acf-report=unmeasured.json", "--acf-html=page.html", code=0)
    assert "of 1 records added" in acf("history", "add", "unmeasured.json")  # 0 where it was within the same second
    with monkeypatch.context() as container:
        git(made.root, "init", "-q")
        container.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        shown = made.pytest("--acf-check=off", "--acf-report=unread.json", code=0)
    assert "no commit is recorded: git cannot be asked about" in shown and "safe.directory" in shown
    assert "found of no artifact whether it holds" in acf("history", "add", "unread.json")
    assert "History: one run" in (made.root / "page.html").read_text()
    assert "History: " not in (made.root / "report.html").read_text()


def test_history_where_git_does_not_answer_says_so(home, acf, monkeypatch):
    commit(home)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    remedy = f"git config --global --add safe.directory {home}"
    for verb in (["history"], ["history", "--format", "json"], ["diff"], ["diff", "main"], ["diff", "HEAD..main"]):
        assert remedy in acf(*verb, code=2), "'could not ask' is neither 'nothing' nor 'fetch it'"
    write_json(measured("2026-11-01"), home / "report.json")
    acf("history", "add", "report.json")
    assert remedy in acf("history", code=1), "what was added is told, and not taken for all there is"


def test_the_same_report_twice_adds_nothing_and_months_have_files(home, acf):
    for date in ("2026-10-31", "2026-11-01"):
        write_json(measured(date), home / f"{date}.json")
    assert "1 of 1 records added" in acf("history", "add", "2026-10-31.json", "2026-11-01.json")
    before = {path.name: path.read_bytes() for path in (home / "acf-history").iterdir()}
    assert sorted(before) == [".gitattributes", ".gitignore", "2026-10.jsonl", "2026-11.jsonl"]
    assert "0 of 1 records added, 1 were there" in acf("history", "add", "2026-10-31.json")
    assert before == {path.name: path.read_bytes() for path in (home / "acf-history").iterdir()}


@pytest.mark.parametrize("root_has", ["settings", "artifacts"])
def test_a_subdirectory_adds_to_the_history_of_its_project(home, acf, monkeypatch, root_has):
    if root_has == "artifacts":
        commit(home)
        (home / "pytest.ini").unlink()
    write_json(measured("2026-11-01"), home / "report.json")
    (home / "kernels").mkdir()
    monkeypatch.chdir(home / "kernels")
    acf("history", "add", "../report.json")
    assert (home / "acf-history/2026-11.jsonl").exists() and not any((home / "kernels").iterdir())


def test_two_devices_that_append_on_two_branches_are_merged_by_git(home, acf):
    write_json(measured("2026-11-01"), home / "first.json")
    acf("history", "add", "first.json")
    git(home, "add", "-A")
    git(home, "commit", "-qm", "x")
    for branch, device in (("one", "H100"), ("two", "H200")):
        git(home, "checkout", "-q", "-b", branch, "main")
        write_json(measured("2026-11-02", device=device), home / f"{device}.json")
        acf("history", "add", f"{device}.json")
        git(home, "add", "-A")
        git(home, "commit", "-qm", branch)
    git(home, "merge", "-q", "-m", "both", "one")
    assert [line["device"] for line in lines(acf)] == ["H100", "H200", "cpu"]
    assert [line["device"] for line in lines(acf, "--device", "h2")] == ["H200"]


@pytest.mark.parametrize(
    ("by", "changed", "cause", "said"),
    [
        ((0, 0.03), {"tuned_code": "d" * 64}, "tuned", ": the tuned arm; with it: the tuned machine code changed"),
        ((0.03, 0), {"baseline_code": "d" * 64}, "baseline", "tuned arm level: the baseline; with it"),
        ((0.03, 0.03), {"machine": "Linux 6.2"}, "machine", "with it: machine Linux 6.1 → Linux 6.2"),
        ((0, 0.03), {}, "machine", "the machine (the machine code that moved is the same)"),
    ],
)
def test_a_step_is_dated_and_laid_to_whom_it_belongs(home, acf, by, changed, cause, said):
    nights(home, acf, 33, since=28, by=by, **changed)
    (move,) = lines(acf, "kernel")[0]["moves"]
    assert (move["since"][:10], move["cause"]) == ("2026-11-01", cause)
    assert move["alarm"] is (by[0] != by[1])
    printed = acf("history", "kernel")
    assert said in printed
    assert ("\n! since 2026-11-01" in printed) is move["alarm"]


def test_no_step_is_noise_and_says_so(home, acf):
    nights(home, acf, 20)
    assert "steady: the ratio varies by 0." in acf("history")


def test_a_diff_shows_the_line_of_what_it_changes(home, acf):
    commit(home)
    nights(home, acf, 33, since=28, by=(0, 0.03), tuned_code="d" * 64)
    commit(home, claims=(measured_claim("cpu").model_copy(update={"speedup": 1.15}),))
    told = [text for text in acf("diff", "HEAD~..HEAD").splitlines() if text.startswith("  history")]
    assert len(told) == 1
    assert "33 runs from 2026-10-01 to 2026-11-05; since 2026-11-01" in told[0]
    assert "the tuned arm" in acf("diff", "HEAD~..HEAD", "--format", "markdown")


def test_the_page_plots_both_arms_and_escapes_what_it_was_given(home, acf):
    nights(home, acf, 12)
    write_json(measured("2026-11-12", device="<script>alert(1)</script>"), home / "hostile.json")
    acf("history", "add", "hostile.json")
    page = acf("history", "--format", "html")
    assert page.count("Both arms over time") == 1
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page


def test_damaged_files_are_named_and_hide_nothing_else(home, acf):
    write_json(measured("2026-11-01"), home / "first.json")
    acf("history", "add", "first.json")
    with (home / "acf-history/2026-11.jsonl").open("a") as stream:
        stream.write("<<<<<<< HEAD\n")
    (home / "acf-history/2026-12.jsonl").symlink_to("/dev/zero")
    printed = acf("history", code=1)
    assert "kernel" in printed
    assert "acf-history/2026-11.jsonl, line 2" in printed
    assert "acf-history/2026-12.jsonl is a link" in printed
    write_json(measured("2026-12-01"), home / "next.json")
    assert "2026-12.jsonl is a link" in acf("history", "add", "next.json", code=2)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "is missing: make one with pytest --acf-report=report.json"),
        ("[]", "is no report of a run"),
        ('{"schema": 9, "items": []}', "has schema 9, and this version reads 1"),
        ('{"schema": 1, "items": []}', "does not say when it was"),
    ],
)
def test_what_is_no_report_is_refused_with_what_makes_one(home, acf, content, said):
    if content is not None:
        (home / "r.json").write_text(content)
    assert said in acf("history", "add", "r.json", code=2)
    assert not (home / "acf-history").exists()


def test_numbers_that_no_measurement_gives_are_refused(home, acf):
    write_json(measured("2026-11-01", tuned=1.0), home / "r.json")
    (home / "r.json").write_text((home / "r.json").read_text().replace('"tuned": 1.0', '"tuned": -1.0'))
    assert "tuned = -1.0" in acf("history", "add", "r.json", code=2)


def test_wrong_calls_say_what_was_expected(home, acf):
    commit(home)
    assert "expected REPORT" in acf("history", "add", code=2)
    assert "expected one NAME" in acf("history", "one", "two", code=2)
    assert "nothing was measured of none" in acf("history", "none", code=2)
    assert "there is no directory elsewhere" in acf("history", "--history-dir", "elsewhere", code=2)


def test_a_repository_without_commits_has_no_history_yet(home, acf):
    assert "nothing was proven yet" in acf("history")


def test_without_git_the_reports_are_enough_and_without_both_it_says_so(tmp_path, acf, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert "no git repository" in acf("history", code=2)
    write_json(measured("2026-11-01"), tmp_path / "r.json")
    acf("history", "add", "r.json")
    assert "one run, 2026-11-01" in acf("history")


def replayed(date: str, artifact: Artifact, *ends: End) -> RunReport:
    """A report of one run that found ``artifact`` to hold, or what had ended it."""
    verdict = Verdict.STALE if ends else Verdict.REPLAYED
    item = ItemReport("t.py::t", "kernel", TARGET, verdict, "", proof=proof_of(artifact), ends=ends)
    return RunReport([item], run=Circumstances(f"{date}T03:00:00Z", "1" * 40, "Linux"))


def test_how_long_it_held_is_told_from_git_and_from_runs(home, acf, monkeypatch):
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-10-01T00:00:00Z")
    commit(home)
    first = Store(home / "acf").read("kernel", TARGET)
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-10-11T00:00:00Z")
    commit(home, fingerprint=NEW_SOURCES, code=NEW_CODE)
    write_json(replayed("2026-10-05", first), home / "held.json")
    write_json(replayed("2026-10-08", first, "kernel"), home / "ended.json")
    acf("history", "add", "held.json", "ended.json")
    told = json.loads(acf("history", "--format", "json"))["lifetimes"]
    assert [(each["ends"], each["until_days"]) for each in told] == [(["kernel"], 7.125), ([], None)]
    printed = acf("history")
    assert "2 proofs of 1 artifact: 1 ended stale, 0 replaced or withdrawn before that, 1 not known to have" in printed
    assert re.search(r" 4 to 8 +kernel\n", printed)
    assert "how long they held" not in acf("history", "--device", "cpu")
    page = acf("history", "--format", "html")
    assert page.index("How long artifacts hold") < page.index("kernel  x86")


def test_a_run_tells_what_ended_its_artifact(tuned, acf, monkeypatch):
    monkeypatch.chdir(tuned.root)
    git(tuned.root, "init", "-q", "-b", "main")
    git(tuned.root, "add", "-A")
    git(tuned.root, "commit", "-qm", "tuned")
    tuned.pytest("--acf-check=replay", "--acf-report=held.json", code=0)
    tuned.edit("test_kernel.py", "rtol=1e-5", "rtol=1e-4")
    tuned.pytest("--acf-check=replay", "--acf-report=ended.json", code=1)
    acf("history", "add", "held.json", "ended.json")
    (lifetime,) = json.loads(acf("history", "--format", "json"))["lifetimes"]
    assert lifetime["ends"] == ["benchmark"]


def test_a_shallow_clone_tells_no_lifetimes_and_says_why(home, capsys, monkeypatch):
    commit(home)
    commit(home, benchmark="moved.py::test")
    git(home, "clone", "-q", "--depth=1", f"file://{home}", home / "shallow")
    monkeypatch.chdir(home / "shallow")
    assert main(["history"]) == 0
    printed = capsys.readouterr()
    assert "git fetch --unshallow" in printed.err
    assert "how long they held" not in printed.out
