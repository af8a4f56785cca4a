"""Progress as a person sees it, in a real terminal of 80 columns."""

from __future__ import annotations

import os
import sys

import pytest

from tests.examples import SUM_C
from tests.projects import NOT_NEEDED
from tests.screen import run_on_screen

pytestmark = pytest.mark.slow

TWO_PY = """\
import pytest
from pytest_compileiq import Cc, minimize


@pytest.mark.parametrize("size", ["one-very-long-name-that-no-terminal-of-eighty-columns-has-room-for"])
@pytest.mark.tune(Cc("sum.c", flags="-O1"), objectives=[minimize("code_bytes")])
def test_sum(acf, size):
    acf.build()


@pytest.mark.tune(Cc("sum.c", flags="-O3"), objectives=[minimize("code_bytes")])
def test_合計(acf):
    acf.build()
"""


@pytest.fixture
def on_screen(project):
    made = project({"sum.c": SUM_C, "test_two.py": TWO_PY})
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COLUMNS"))}

    def run(*options, columns=80):
        argv = [sys.executable, "-m", "pytest", *(f"-pno:{name}" for name in NOT_NEEDED), *options]
        return run_on_screen(argv, cwd=made.root, environment={**environment, "TERM": "xterm"}, columns=columns)

    return run


def rows_of_dots(screen):
    """From the first row of a file's dots to the empty row behind them."""
    start = next(number for number, line in enumerate(screen.lines) if line.startswith("test_two.py"))
    return screen.lines[start : screen.lines.index("", start)]


@pytest.mark.parametrize(
    ("options", "columns", "shown"),
    [
        (("--tune", "--tune-budget=6", "-v"), 80, "/6 evaluations, "),
        (("--tune", "--tune-total=12"), 80, "night: "),
    ],
)
def test_progress_on_a_terminal_leaves_pytests_own_lines(on_screen, options, columns, shown):
    tuned = on_screen(*options, columns=columns)
    frames = [frame.split("\n") for frame in tuned.frames]
    progress = [line for lines in frames for line in lines if shown in line]
    assert progress and all(len(line) < columns for line in progress)
    assert not any("1.000x better" in line for line in progress)
    under_way = range(1, len(frames))  # pytest's header and our summary may be wider than the terminal
    assert not [line for number, line in tuned.wrapped if number in under_way]
    verbose = [option for option in options if option == "-v"]
    assert rows_of_dots(tuned) == rows_of_dots(on_screen(*verbose, columns=columns))


def test_quiet_shows_no_progress(on_screen):
    tuned = on_screen("--tune", "--tune-budget=4", "-q", "-k", "合計")
    assert not tuned.frames and "evaluations," not in "\n".join(tuned.lines).partition("= acf =")[0]
