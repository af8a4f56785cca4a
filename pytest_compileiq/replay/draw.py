"""Which controls ``--tune-draw=SEED`` repeats a draw with: the committed ones, or those of ``--tune-from``."""

from __future__ import annotations

from pathlib import Path

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import ControlsFile
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.replay.committed import Integrity, Stop
from pytest_compileiq.store.packs import read_candidates


def controls_to_draw(benchmark: TunedBenchmark, integrity: Integrity, start_from: Path | None) -> ControlsFile:
    """The controls to repeat a draw with.

    Raises:
        Stop: there are none, they cannot be read, or they lie outside the space that the test declares.
        MarkerError: they hold what the compiler takes no knob for.
    """
    if start_from is None:
        artifact = integrity.read()
        if (committed := integrity.controls(artifact)) is None:
            raise Stop(
                Verdict.MISSING,
                f"{benchmark.name} has no committed controls to draw with: its outcome is {artifact.outcome!r}",
                "name others: --tune-from=PATH",
            )
        return committed
    try:
        candidate = read_candidates(start_from)[0]
    except StoreError as error:
        raise Stop(Verdict.CORRUPT, str(error), "name an artifact's .toml") from error
    if reason := benchmark.why_outside(candidate):
        raise Stop(Verdict.CORRUPT, f"{start_from}: outside the test's space: {reason}", "name other controls")
    return benchmark.builder.render(candidate)
