"""What ``kills.py`` kills on a Ray cluster: drivers, actors, and nodes with all that they have started.

Several kills hit one search, at random moments, each of what a seeded coin names.
"""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kills import MARK, in_journal, make_project, start
from pytest_compileiq.system.watchdog import of_each_process
from tests.cluster.clusters import RealCluster, actors_of, parents, real_cluster, send, with_variable

TEST = """\
import time
import pytest
from pytest_compileiq import Cc, minimize

@pytest.mark.tune(Cc("wire.c", flags="-O2"), objectives=[minimize("code_bytes")])
def test_wire(acf):
    acf.build()
    time.sleep(0.1)
"""
NODES = 3
PATIENCE_S = 90.0
_KINDS = ("actor", "node", "driver")


class Where(Protocol):
    """A cluster whose nodes can be killed."""

    def raylets(self) -> list[int]:
        """The process of each node."""

    def lose(self, raylet: int) -> None:
        """Kill a node, and begin another one where that is not the run's own doing."""


@dataclass
class Toll:
    """What kills have cost."""

    kills: Counter[str] = field(default_factory=Counter)
    searches: int = 0
    runs: int = 0
    lost: int = 0
    repeated: int = 0
    torn: int = 0
    invalid: int = 0
    other: int = 0
    speechless: int = 0


def kill(where: str, kills: int, budget: int, seed: int) -> str:
    """Kill until ``kills`` are counted; returns what that has cost, in a sentence."""
    toll, coins = Toll(), random.Random(seed)
    with tempfile.TemporaryDirectory(dir="/tmp") as home, _cluster(where, Path(home)) as cluster:
        while toll.kills.total() < kills:
            toll.searches += 1
            unkilled = _project(Path(home) / f"unkilled{toll.searches}")
            words = f"--tune-budget={budget}", f"--tune-seed={toll.searches}"
            start(unkilled, *words).wait()
            project = _project(Path(home) / f"killed{toll.searches}")
            _search(project, [*words, f"--tune-on={cluster.address}"], cluster, toll, coins, kills)
            _compare(project, unkilled, budget, toll)
            print(toll, flush=True)
        left = _left(cluster, Path(home))
    return (
        f"{toll.kills.total()} kills ({', '.join(f'{count} of {kind}s' for kind, count in sorted(toll.kills.items()))}) "
        f"over {toll.searches} searches of {budget} evaluations, begun {toll.runs} times: {toll.lost} lost, "
        f"{toll.repeated} counted twice, {toll.invalid} invalid by a kill, {toll.torn} artifacts torn or missing, "
        f"{toll.other} other than an unkilled search's, {toll.speechless} runs with a traceback; "
        f"{PATIENCE_S:g} s later {left} processes and folders left"
    )
