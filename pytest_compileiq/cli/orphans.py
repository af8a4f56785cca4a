"""Which artifacts the tests of a project claim: pytest collects them in another process, and none runs."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

from pytest_compileiq.benchmark.benchmark import find_marker
from pytest_compileiq.benchmark.marker import name_within, read_marker
from pytest_compileiq.errors import CompileIQError, UserError

_COLLECTED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.INTERRUPTED)


@dataclass(eq=False)  # pytest keeps its plugins in sets
class ClaimedNames:
    """The claims that a collection found; it is itself the pytest plugin that notes them."""

    tests: dict[str, str] = field(default_factory=dict)  # artifact → test; deselected tests count
    untuned: list[str] = field(default_factory=list)  # tests without a marker
    left_out: list[str] = field(default_factory=list)  # modules and tests with unknown claims
    refusal: str = ""  # why pytest could not collect at all

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Note what a test claims."""
        mark = find_marker(item)
        if mark is None:
            self.untuned.append(item.nodeid)
            return
        try:
            self.tests[read_marker(mark, name_within(item)).name] = item.nodeid
        except CompileIQError:
            self.left_out.append(item.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that failed or was skipped."""
        if report.outcome != "passed":
            self.left_out.append(report.nodeid)


def collect_claims(project: Path) -> ClaimedNames:
    """The artifacts that the tests of ``project`` claim; raises ``UserError`` if pytest cannot collect."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest_compileiq.cli.orphans"], cwd=project, capture_output=True, text=True, check=False
    )
    try:
        claims = ClaimedNames(**json.loads(done.stdout.splitlines()[-1]))
    except (ValueError, TypeError, IndexError):
        claims = ClaimedNames(refusal=done.stderr)
    if claims.refusal:
        raise UserError(f"pytest could not collect the tests of {project}: {claims.refusal.strip()[-300:]}")
    return claims


def _main() -> None:
    """Collect the tests of the working directory, and print the claims as one line of JSON."""
    claims, printed = ClaimedNames(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider"], plugins=[claims])
    if code not in _COLLECTED:
        claims.refusal = printed.getvalue()
    print(json.dumps(asdict(claims)))


if __name__ == "__main__":
    _main()
