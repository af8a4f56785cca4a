"""The counts of processes taken together: each process once, by its fullest line, in whatever order the lines came."""

from __future__ import annotations

import itertools

from pytest_compileiq.ship.acf_runtime import unmet
from pytest_compileiq.ship.usage import ArtifactCounts, Counts, headline, together, told_of


def line(process: str, problem: str | None = None, **applied: int) -> Counts:
    """One line of ``process``; a negative number of applications is one of refusals."""
    artifacts = {
        name: ArtifactCounts(True, abs(count), max(count, 0), {"another device": -count} if count < 0 else {})
        for name, count in applied.items()
    }
    return Counts(1, process, "/export", problem, artifacts)


def test_of_a_process_the_fullest_line_counts_whatever_came_last():
    lines = [line("p", a=1), line("p", a=1, b=-2), line("p", a=4, b=-2), line("q", a=3, b=0)]
    for order in itertools.permutations(lines):
        found = together(order)
        assert found["processes"] == 2
        assert found["artifacts"] == {
            "a": {"shipped": True, "looked_for": 7, "applied": 7, "refused": {}},
            "b": {"shipped": True, "looked_for": 2, "applied": 0, "refused": {"another device": 2}},
        }


def test_what_one_process_refused_and_another_applied_is_in_use():
    report = together([line("p", a=-3), line("q", a=1)])
    assert unmet(report, "all") == []
    assert told_of("a", report) == "looked for 4x, applied 1x: another device"
    assert headline(report, ()) == "in use: 1 of 1 shipped artifacts applied in 2 processes"


def test_what_one_of_two_exports_ships_is_shipped():
    for shipped in ((True, False), (False, True)):
        ships, does_not = (ArtifactCounts(each, 1, 0, {}) for each in shipped)
        assert ships.more(does_not).shipped


def test_an_export_that_one_process_could_not_read_is_no_pass():
    report = together([line("p", a=1), line("q", problem="manifest.json cannot be read: it is gone")])
    assert unmet(report, "a") == ["manifest.json cannot be read: it is gone"]


def test_what_was_counted_before_a_test_is_not_counted_in_it():
    before, after = line("p", a=2, b=-1), line("p", a=2, b=-3, c=1)
    own = after.less(before)
    assert own.artifacts == line("p", a=0, b=-2, c=1).artifacts
    assert after.less(None) == after


def test_the_most_frequent_reasons_lead_and_the_rest_are_counted():
    refused = {f"reason {number}": number for number in range(1, 6)}
    artifacts = {"a": ArtifactCounts(True, 15, 0, refused), "b": ArtifactCounts(True, 0, 0, {})}
    report = together([Counts(1, "p", "/export", None, artifacts)])
    assert unmet(report, "a,b") == [
        "a was never applied: refused 5x (reason 5), refused 4x (reason 4), refused 3x (reason 3) and 2 more",
        "b was never applied: nobody asked for it",
    ]
