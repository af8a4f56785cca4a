"""Both arms of a replay: handed out by ``--acf-arms``, run again on one draw by ``--tune-draw``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.benchmark.body import ArmFailure, Arms, Bodies, Body, run_draw
from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import ControlsFile
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.replay.committed import Integrity, Stop
from pytest_compileiq.store.packs import read_candidates
from pytest_compileiq.toolchains.option_classes import has_to_keep_bits, licences_or_unknown

ARMS_FILE = "arms.json"


def hand_out(benchmark: TunedBenchmark, integrity: Integrity, folder: Path) -> None:
    """Write ``folder/NAME/``: a file for each arm, and in ``arms.json`` what they are of.

    Raises:
        OSError: it cannot be written.
    """
    artifact = integrity.read()
    controls = integrity.controls(artifact)
    if controls is None:
        return
    own = folder / benchmark.name
    own.mkdir(parents=True, exist_ok=True)
    files = {}
    for arm, which in (("baseline", None), ("tuned", controls)):
        built = benchmark.builds.get(which).path
        files[arm] = f"{arm}{built.suffix}"
        shutil.copyfile(built, own / files[arm])
    told = {
        "benchmark": benchmark.nodeid,
        "target": artifact.target,
        "data": sorted(benchmark.builder.data),
        "workloads": {workload.name: dict(workload.values) for workload in benchmark.spec.workloads},
        "arms": files,
    }
    (own / ARMS_FILE).write_text(json.dumps(told, indent=1, default=str) + "\n", encoding="utf-8")


def controls_to_draw(benchmark: TunedBenchmark, integrity: Integrity, start_from: Path | None) -> ControlsFile:
    """The controls to repeat a draw with."""
    if start_from is None:
        artifact = integrity.read()
        if (committed := integrity.controls(artifact)) is None:
            why = f"{benchmark.name} has no committed controls to draw with: its outcome is {artifact.outcome!r}"
            raise Stop(Verdict.MISSING, why, "name others: --tune-from=PATH")
        return committed
    try:
        candidate = read_candidates(start_from)[0]
    except StoreError as error:
        raise Stop(Verdict.CORRUPT, str(error), "name an artifact's .toml") from error
    if reason := benchmark.why_outside(candidate):
        raise Stop(Verdict.CORRUPT, f"{start_from}: outside the test's space: {reason}", "name other controls")
    return benchmark.rendered(candidate)


def repeat_draw(benchmark: TunedBenchmark, body: Body, controls: ControlsFile, seed: int) -> None:
    """Run and judge the body on every workload with ``seed`` for ``acf.rng``, as stress does."""
    promised = has_to_keep_bits(benchmark.builder, controls, licences_or_unknown(benchmark.builder))
    arms: Arms = {"baseline": None, "tuned": controls}
    for workload in benchmark.spec.workloads:
        try:
            run_draw(Bodies(benchmark, body, arms, workload), seed, bits_promised=promised)
        except ArmFailure as failure:
            which = "the controls" if failure.arm == "tuned" else "the baseline"
            raise Stop.wrong(failure, which, workload.name, "tune anew: pytest --tune {test}") from failure
