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
    pairs = [("name", item.name), ("target", item.target), ("verdict", item.verdict)]
    if item.speedup is not None:
        pairs += [(key, repr(getattr(item, key))) for key in ("speedup", "speedup_low", "speedup_high")]
    worse = "; ".join(result.text() for result in item.results if result.standing == "worse")
    known = (("worse", worse), ("workload", item.workload), ("evidence", item.evidence))
    pairs += [(key, text) for key, text in known if text]
    pairs += [(f"not_run.{check.name}", check.detail) for check in item.checks if check.status == "not run"]
    yield from ((f"{JUNIT_PREFIX}{key}", harmless(text)) for key, text in pairs)
