"""A run's values for programs: the JSON report, and properties of a test case in JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_compileiq.outcome import ItemReport, RunReport
from pytest_compileiq.system.files import write_output
from pytest_compileiq.system.printing import harmless, json_text


def write_json(report: RunReport, path: Path) -> None:
    """Write the versioned report to ``path``, whose directory is created if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_output(path, json_text(report.as_dict()) + "\n")


JUNIT_PREFIX = "acf."


def junit_properties(item: ItemReport) -> Iterator[tuple[str, str]]:
    """Names and values for ``user_properties``: strings alone, since anything else breaks a run under xdist."""
    yield f"{JUNIT_PREFIX}name", harmless(item.name)
    yield f"{JUNIT_PREFIX}target", harmless(item.target)
    yield f"{JUNIT_PREFIX}verdict", harmless(item.verdict)
    if item.speedup is not None:
        yield f"{JUNIT_PREFIX}speedup", repr(item.speedup)
        yield f"{JUNIT_PREFIX}speedup_low", repr(item.speedup_low)
        yield f"{JUNIT_PREFIX}speedup_high", repr(item.speedup_high)
    if worse := [result.text() for result in item.results if result.standing == "worse"]:
        yield f"{JUNIT_PREFIX}worse", harmless("; ".join(worse))
    if item.workload:
        yield f"{JUNIT_PREFIX}workload", harmless(item.workload)
    if item.evidence:
        yield f"{JUNIT_PREFIX}evidence", harmless(item.evidence)
    for check in item.checks:
        if check.status == "not run":
            yield f"{JUNIT_PREFIX}not_run.{check.name}", harmless(check.detail)
