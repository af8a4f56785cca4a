"""What ``kills.py`` kills of a search on a Ray cluster: its driver, actors, and nodes with all that they have started.

Several kills hit one search, at random moments, each of what a seeded coin names.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kills import MARK, in_journal, make_project, start
from tests.cluster.clusters import RealCluster, actors_of, real_cluster, send, with_variable

# Slow enough for kills to hit evaluations too, not only what begins and ends them.
TEST = """\
import time
import pytest
from pytest_compileiq import Cc, minimize

@pytest.mark.tune(Cc("wire.c", flags="-O1"), objectives=[minimize("code_bytes")])
def test_first(acf):
    acf.build()
    time.sleep(0.1)

@pytest.mark.tune(Cc("wire.c", flags="-O2"), objectives=[minimize("code_bytes")])
def test_second(acf):
    acf.build()
    time.sleep(0.1)
"""
BENCHMARKS = ("first", "second")
NODES = 3
KINDS = ("actor", "driver", "node")
LEFT_AFTER_S = 90.0
Row = tuple[object, ...]


@dataclass
class Toll:
    """What the kills have cost."""

    kills: Counter[str] = field(default_factory=Counter)
    searches: int = 0
    runs: int = 0
    lost: int = 0
    twice: int = 0
    invalid: int = 0
    torn: int = 0
    other: int = 0
    tracebacks: int = 0

    def __str__(self) -> str:
        kills = ", ".join(f"{count} of {kind}s" for kind, count in sorted(self.kills.items()))
        return (
            f"{self.kills.total()} kills ({kills}) over {self.searches} searches, begun {self.runs} times: "
            f"{self.lost} evaluations lost, {self.twice} counted twice, {self.invalid} invalid by a kill, "
            f"{self.torn} artifacts torn or missing, {self.other} other than an unkilled search's, "
            f"{self.tracebacks} runs that ended with a traceback"
        )


class Cluster:
    """What a search runs on; what is killed of it is begun anew, so that there is always something to go on with."""

    def __init__(self, where: str) -> None:
        self.is_own = where == "ray"
        self._nodes: RealCluster | None = None
        self._held = contextlib.ExitStack()
        if not self.is_own:
            self._begin()

    @property
    def address(self) -> str:
        """What ``--tune-on`` takes."""
        return self._nodes.address if self._nodes else "ray"

    def moment(self, coins: random.Random) -> float:
        """Seconds to the next kill: of a search's life, most of which begins after its own cluster has."""
        return 0.5 + (18 if self.is_own else 6) * coins.random()

    @property
    def environment(self) -> Mapping[str, str]:
        """What a driver needs."""
        return self._nodes.environment if self._nodes else {}

    @property
    def raylets(self) -> list[int]:
        """The process of each node; those that a run has begun for itself are found by their mark."""
        if self._nodes:
            return self._nodes.raylets
        return [pid for pid in with_variable(MARK, "1") if _name(pid) == "raylet"]

    def lose(self, raylet: int) -> None:
        """Kill a node with all that it has started; with the head goes the cluster."""
        if self._nodes is None:
            send(raylet, signal.SIGKILL)
        elif raylet == self._nodes.raylets[0]:
            self._begin()
        else:
            self._nodes.lose_node(raylet)
            self._nodes.add_node()

    def close(self) -> None:
        """End it."""
        self._held.close()

    def _begin(self) -> None:
        self._held.close()
        self._nodes = self._held.enter_context(real_cluster(NODES))


@dataclass
class Search:
    """One search, killed again and again until it is through."""

    project: Path
    words: Sequence[str]
    cluster: Cluster
    coins: random.Random
    toll: Toll
    kept: list[Row] = field(default_factory=list)

    def run(self, most_kills: int) -> None:
        """Run it until it is through; once ``most_kills`` are counted, it is left alone."""
        while self._left:
            self.toll.runs += 1
            driver = self._start()
            while self.toll.kills.total() < most_kills and not _ends(driver, self.cluster.moment(self.coins)):
                self._kill(driver)
                self._look()
            driver.wait()
            self._look()
        self.toll.tracebacks += "Traceback" in (self.project / "said").read_text(errors="replace")

    @property
    def _left(self) -> list[str]:
        """The benchmarks that have no artifact yet; the others have forgotten their journal."""
        return [name for name in BENCHMARKS if not any(self.project.glob(f"acf/{name}/*.toml"))]

    def _start(self) -> subprocess.Popen[bytes]:
        words = "-q", "--tune", "--tune-new-only", *self.words, f"--tune-on={self.cluster.address}"
        environment = {**os.environ, **self.cluster.environment, MARK: "1"}
        with (self.project / "said").open("ab") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "pytest", *words], cwd=self.project, env=environment, stdout=said, stderr=said
            )

    def _kill(self, driver: subprocess.Popen[bytes]) -> None:
        """Kill what the coin names, if it is there."""
        kind = self.coins.choice(KINDS)
        raylets = self.cluster.raylets
        there = {"actor": actors_of(raylets), "driver": [driver.pid], "node": raylets}[kind]
        if not there:
            return
        self.toll.kills[kind] += 1
        victim = self.coins.choice(sorted(there))
        if kind == "node":
            self.cluster.lose(victim)
        else:
            send(victim, signal.SIGKILL)

    def _look(self) -> None:
        """Compare the journal with what it held before."""
        rows = in_journal(self.project, "benchmark, number, batch, place, failure, scores")
        left = self._left  # after the journal was read: who is left now has not forgotten it
        kept, now = [[row for row in each if str(row[0]).rpartition("_")[2] in left] for each in (self.kept, rows)]
        self.toll.lost += sum(row not in now for row in kept)
        self.toll.twice += len(now) - len({(row[0], *row[2:4]) for row in now})
        self.kept = now


def kill(where: str, kills: int, budget: int, seed: int) -> str:
    """Kill until ``kills`` are counted; returns what that has cost, in a sentence."""
    toll, coins = Toll(), random.Random(seed)
    with contextlib.ExitStack() as held:
        home = held.enter_context(tempfile.TemporaryDirectory(dir="/tmp", prefix="k"))  # short: sockets will be in it
        os.environ["TMPDIR"] = home
        cluster = held.enter_context(contextlib.closing(Cluster(where)))
        while toll.kills.total() < kills:
            toll.searches += 1
            words = f"--tune-budget={budget}", f"--tune-seed={toll.searches}"
            unkilled = make_project(Path(home) / f"unkilled{toll.searches}", TEST)
            start(unkilled, *words).wait()
            killed = make_project(Path(home) / f"killed{toll.searches}", TEST)
            Search(killed, words, cluster, coins, toll).run(kills)
            _compare(killed, unkilled, toll)
            print(toll, flush=True)
        processes, folders = _left(cluster, Path(home))
    return f"{toll}; {LEFT_AFTER_S:g} s later {processes} processes and {folders} folders left"


def _compare(killed: Path, unkilled: Path, toll: Toll) -> None:
    """Hold artifacts against those of a search of the same seed that nobody has killed."""
    for name in BENCHMARKS:
        search, wanted = (_search_of(project, name) for project in (killed, unkilled))
        toll.torn += search["evaluations"] != wanted["evaluations"]
        toll.invalid += max(0, search["invalid"] - wanted["invalid"])
    toll.other += _controls(killed) != _controls(unkilled)


def _search_of(project: Path, name: str) -> Mapping[str, int]:
    (metadata,) = project.glob(f"acf/{name}/*.toml")
    table: Mapping[str, int] = tomllib.loads(metadata.read_text())["search"]
    return table


def _controls(project: Path) -> list[bytes]:
    return sorted(path.read_bytes() for path in project.glob("acf/*/*.acf"))


def _left(cluster: Cluster, home: Path) -> tuple[int, int]:
    """Processes and folders of searches that are there a while after the last one."""
    give_up_at = time.monotonic() + LEFT_AFTER_S
    while True:
        processes = {*with_variable(MARK, "1"), *actors_of(cluster.raylets)}
        folders = list(home.glob("compileiq-*"))
        if not processes | {*folders} or time.monotonic() > give_up_at:
            return len(processes), len(folders)
        time.sleep(1)


def _ends(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether it ends by itself within ``seconds``."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=seconds)
    return process.poll() is not None


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
