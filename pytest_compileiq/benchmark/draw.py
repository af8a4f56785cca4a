"""One draw of ``acf.rng``: the tuned body once and the baseline's twice, with the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.body import ArmFailure, Arms, Body, run_once
from pytest_compileiq.benchmark.compared import Output, Outputs, why_different
from pytest_compileiq.benchmark.fixture import Acf
from pytest_compileiq.model import Arm, Workload, sha256_hex
from pytest_compileiq.rules.stress import Difference, Draw

Given = Mapping[str, Output]


def run_draw(
    benchmark: TunedBenchmark,
    body: Body,
    arms: Arms,
    workload: Workload,
    seed: int,
    tick: Callable[[], object],
    *,
    bits_promised: bool = False,
) -> Draw:
    """Run the body as both arms with ``seed`` for ``acf.rng``.

    The tuned arm goes first, so that it finds nothing of this draw in memory that the arms share. The baseline goes
    twice: an output in which it does not repeat itself condemns nobody.

    Args:
        bits_promised: whether the arms' outputs have to be the same bits, NaN equal to NaN, whatever the body allows.

    Raises:
        ArmFailure: an arm's body failed; the baseline does not repeat itself within what the body allows; or the arms
            differ more than that.
    """

    ran: list[Acf] = []

    def run(arm: Arm) -> Given:
        outputs = Outputs()
        ran.append(run_once(benchmark, body, arms, arm, workload, outputs, tick, draw=seed))
        return outputs.given

    tuned, first, second = run("tuned"), run("baseline"), run("baseline")
    _expect_alike("baseline", first, second, "the baseline does not repeat itself: ")
    _expect_alike("tuned", first, tuned)
    spread, differences = tuple(_differences(first, second)), tuple(_differences(first, tuned))
    if bits_promised and (broken := _broken_promise(spread, differences)):
        raise ArmFailure("tuned", "wrong", broken)
    return Draw(
        tuple(sorted(first.keys() & tuned.keys())), differences, spread, dict(_errors(first, tuned)),
        written=tuple(sha256_hex(b"".join(each.own_bytes.tobytes() for each in acf.written)) for acf in ran),
        apart=why_apart(*ran[:2]),
    )  # fmt: skip


def why_apart(tuned: Acf, baseline: Acf) -> str | None:
    """How an output of the tuned arm differs from the baseline's, in words; None also where ``check=`` judges it."""
    pairs = () if tuned.asked.check else zip(tuned.written, baseline.written, strict=False)
    return next(filter(None, (own.why_apart(its) for own, its in pairs)), None)


def _expect_alike(arm: Arm, first: Given, other: Given, said: str = "") -> None:
    """The judgement of ``acf.compare``, on all outputs; their shapes and types even where there is a reference."""
    for name in sorted(first.keys() & other.keys()):
        before, after = first[name].array, other[name].array
        is_judged = first[name].reference is None or (before.shape, before.dtype) != (after.shape, after.dtype)
        if is_judged and (reason := why_different(name, other[name], first[name])):
            raise ArmFailure(arm, "wrong", said + reason)


def _broken_promise(spread: tuple[Difference, ...], differences: tuple[Difference, ...]) -> str | None:
    """Why bits that were promised are broken; None where the baseline's own differ in the same outputs."""
    of_itself = {difference.output for difference in spread}
    for difference in differences:
        if difference.output not in of_itself:
            where = f"output {difference.output!r}, element {difference.index}"
            values = f"{difference.baseline} in the baseline and {difference.other} in the tuned arm"
            return f"{where} is {values}, and its controls promise the same bits"
    return None


def _differences(first: Given, other: Given) -> Iterator[Difference]:
    from pytest_compileiq.rules.accuracy import farthest  # heavy: numpy, which a body that compares has imported

    for name in sorted(first.keys() & other.keys()):
        if difference := farthest(name, first[name].array, other[name].array):
            yield difference


def _errors(first: Given, tuned: Given) -> Iterator[tuple[str, tuple[float, float]]]:
    from pytest_compileiq.rules.accuracy import error_in_half_ulps

    for name in sorted(first.keys() & tuned.keys()):
        if first[name].reference is not None and tuned[name].reference is not None:
            before, after = (error_in_half_ulps(arm[name].array, arm[name].reference) for arm in (first, tuned))
            yield name, (before, after)
