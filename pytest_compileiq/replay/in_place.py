"""What the programs that a kernel was captured from said of its artifact, in a normal run."""

from __future__ import annotations

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.outcome import Check, Verdict
from pytest_compileiq.replay.committed import Stop
from pytest_compileiq.rules.in_place import contradicted, open_in, wrong_in
from pytest_compileiq.toolchains.base import CallsWithData

_VALIDATE = "acf capture --validate DIR -- python PROGRAM"
_EXPLAIN = (
    "look into it, then say why in the artifact: acf explain {name} --reason '…'; or tune on a better capture: "
    "pytest --tune {nodeid}"
)


def in_place(benchmark: TunedBenchmark, artifact: Artifact, checks: list[Check]) -> list[str]:
    """Add the check of what is on record to ``checks``; gives notes. There is none of a kernel that was not captured.

    Raises:
        Stop: a program contradicts the artifact, and nobody has explained it.
    """
    if not isinstance(benchmark.builder, CallsWithData) and not artifact.in_place:
        return []
    if not artifact.in_place:
        checks.append(Check("in place", "not run", f"never validated in its program: {_VALIDATE}"))
    for record, said in contradicted(artifact):
        is_wrong = any(wrong_in(record))
        raise Stop(
            Verdict.WRONG if is_wrong else Verdict.REFUTED,
            said,
            _EXPLAIN.format(name=benchmark.name, nodeid=benchmark.nodeid),
            ends=("wrong",) if is_wrong else ("gain",),
        )
    for record in artifact.in_place:
        left_open = "; ".join(open_in(record))
        passed = f"on record: validated in {record.program} on {record.device}"
        told = f"{record.program}: {left_open}" if left_open else passed
        checks.append(Check("in place", "not run" if left_open else "passed", told))
    return [
        f"{record.program} contradicts it, explained: {record.explanation}"
        for record in artifact.in_place
        if record.explanation
    ]
