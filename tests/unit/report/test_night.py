"""The night as it is watched: one table that is redrawn on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math

import pytest

from pytest_compileiq.outcome import NightReport, NightRow
from pytest_compileiq.report.progress import NightTable, night_line, night_lines

ROWS = (
    NightRow("t.py::test_done", "done", 1.0, "closed", 120, -math.log(1.25), 0.5, "TUNED: the budget was spent"),
    NightRow("t.py::test_now", "now", 2.0, "searching", 40, 0.0, 0.25),
    NightRow("t.py::test_bad", "bad", 1.0, "failed", 0, 0.0, 0.0, "does not build " * 20),
)


def report(rows=ROWS, unit="s", **changes) -> NightReport:
    values = {
        "unit": unit,
        "total": 28800.0,
        "spent": 3725.0,
        "reserved": 600.0,
        "doing": "searching now",
        "rows": rows,
    }
    return NightReport(**values | changes)


def test_a_line_says_what_is_spent_kept_and_closed():
    line = night_line(report())
    assert line == "night: 1:02:05 of 8:00:00, 10:00 kept for proofs; 1 closed, 1 failed, 1 searching; searching now"
    counted = night_line(report(unit="evaluations", total=4000, spent=1234, reserved=0.0, rows=()))
    assert counted == "night: 1,234 of 4,000 evaluations; nothing opened; searching now"


def test_a_row_says_how_one_benchmark_stands():
    _, heading, *rows = night_lines(report())
    assert heading.split() == ["benchmark", "evaluations", "best", "(unproven)", "share", "state"]
    assert rows[0].split(None, 5) == ["done", "120", "1.250x", "better", "50.0%", "closed: TUNED: the budget was spent"]
    assert rows[1].split() == ["now", "40", "-", "25.0%", "searching"]
    assert rows[2].endswith(" …")
    assert len(rows[2]) < 160


def test_a_score_without_ratios_is_shown_by_its_difference():
    *_, row = night_lines(report((NightRow("t.py::test_loss", "loss", 1.0, "searching", 8, -0.2, 0.1, shift=-0.05),)))
    assert "lower by 0.05 of the baseline's magnitude" in row


def test_a_live_table_has_what_goes_on_first_and_counts_the_rest():
    many = [NightRow(f"t.py::test_{n}", f"n{n}", 1.0, "closed", 4, 0.0, 0.0) for n in range(30)]
    lines = list(night_lines(report((*many, *ROWS)), most=4))
    assert lines[2].startswith("now")
    assert lines[-1] == "and 29 more"
    assert len(lines) == 7


class OnTerminal:
    """What a night asks of a terminal; what was drawn, or printed."""

    def __init__(self, *, is_live: bool, is_silent: bool = False) -> None:
        self.is_live, self.is_silent = is_live, is_silent
        self.shown = []

    def begin(self) -> None:
        pass

    def say(self, line: str) -> None:
        self.shown.append(line)

    def redraw(self, lines) -> None:
        self.shown.append(len(lines))


@pytest.mark.parametrize(
    ("terminal", "shown"),
    [
        (OnTerminal(is_live=True), [1, 6, 6, 0]),
        (OnTerminal(is_live=False), ["now: play-off of the best 3", night_line(report())]),
        (OnTerminal(is_live=False, is_silent=True), []),
    ],
)
def test_a_night_is_drawn_on_a_terminal_and_a_line_a_minute_elsewhere(monkeypatch, terminal, shown):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    table = NightTable(terminal)
    table.say("now: play-off of the best 3")
    for now[0] in (1.0, 1.1, 61.0, 61.1):
        if terminal.is_live or now[0] > 1.1:
            table.show(report)
    table.done()
    assert terminal.shown == shown
