"""Hands out what a replay built: both arms of an artifact that holds, for ``--acf-arms``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.replay.committed import Integrity

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
        "workloads": {workload.name: _plain(dict(workload.values)) for workload in benchmark.spec.workloads},
        "arms": files,
    }
    (own / ARMS_FILE).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _plain(params: object) -> object:
    """Parameters in JSON's types; any other value in words."""
    return json.loads(json.dumps(params, default=str))
