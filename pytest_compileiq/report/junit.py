"""A tuned test's report as properties of its test case in JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_compileiq.outcome import ItemReport
from pytest_compileiq.system.printing import harmless

PREFIX = "acf."


def properties(item: ItemReport) -> Iterator[tuple[str, str]]:
    """Names and values for ``user_properties``: strings alone, since anything else breaks a run under xdist."""
    yield f"{PREFIX}name", harmless(item.name)
    yield f"{PREFIX}target", harmless(item.target)
    yield f"{PREFIX}verdict", harmless(item.verdict)
    if item.speedup is not None:
        yield f"{PREFIX}speedup", repr(item.speedup)
        yield f"{PREFIX}speedup_low", repr(item.speedup_low)
        yield f"{PREFIX}speedup_high", repr(item.speedup_high)
    if worse := [result.text() for result in item.results if result.standing == "worse"]:
        yield f"{PREFIX}worse", harmless("; ".join(worse))
    if item.workload:
        yield f"{PREFIX}workload", harmless(item.workload)
    if item.evidence:
        yield f"{PREFIX}evidence", harmless(item.evidence)
    for check in item.checks:
        if check.status == "not run":
            yield f"{PREFIX}not_run.{check.name}", harmless(check.detail)
