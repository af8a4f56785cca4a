"""Searches on a cluster of Ray that a test hurts while they are under way."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.clusters import RealCluster, parents, with_variable
from tests.projects import NOT_NEEDED, Project
from tests.waiting import wait_until

# Two searches, each on a device of its own, that wait within a candidate for as long as the file ``wait`` is there.
TWO_PY = """\
import os, time
from pathlib import Path
import pytest
from pytest_compileiq import Cc, minimize

def evaluate(acf, name):
    acf.build()
    if not acf.is_baseline:
        with Path(f"{name}.actors").open("a") as stream:
            stream.write(f"{os.getppid()}\\n")
        while Path("wait").exists():
            time.sleep(0.02)

@pytest.mark.tune(Cc("sum.c", flags="-O1 -fstrict-aliasing"), objectives=[minimize("code_bytes")], timeout_s=300)
def test_first(acf):
    evaluate(acf, "first")

@pytest.mark.tune(Cc("sum.c", flags="-O2 -fstrict-aliasing"), objectives=[minimize("code_bytes")], timeout_s=300)
def test_second(acf):
    evaluate(acf, "second")
"""
BOTH = ("first", "second")
_PATIENCE_S = 240.0
_BEGUN_BY = "COMPILEIQ_TEST_SEARCH"


@dataclass
class Search:
    """One ``pytest --tune`` on a cluster.

    Attributes:
        driver: its process.
        mark: the value of an environment variable that all it starts has.
    """

    made: Project
    cluster: RealCluster
    arguments: Sequence[str] = ()
    mark: str = field(default_factory=lambda: secrets.token_hex(8))

    def __post_init__(self) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        options = [*(f"-pno:{name}" for name in NOT_NEEDED), "--tune", f"--tune-on={self.cluster.address}"]
        with self._file.open("wb") as printed:
            self.driver = subprocess.Popen(
                [sys.executable, "-m", "pytest", *options, *self.arguments], cwd=self.made.root,
                env={**environment, **self.cluster.environment, _BEGUN_BY: self.mark}, stdout=printed, stderr=printed,
            )  # fmt: skip

    @property
    def printed(self) -> str:
        """What it has printed so far."""
        return self._file.read_text()

    @property
    def _file(self) -> Path:
        return self.made.root / f"{self.mark}.txt"

    def actors(self, name: str) -> list[int]:
        """The process that owned the worker of each evaluation of a benchmark."""
        path = self.made.root / f"{name}.actors"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def both_evaluate(self) -> bool:
        """Whether both benchmarks get to a candidate."""
        return wait_until(lambda: all(map(self.actors, BOTH)) or self.driver.poll() is not None, _PATIENCE_S)

    def off_the_head(self) -> int:
        """The actor that is on another node than the driver, whose own node takes the whole run along."""
        head = self.cluster.raylets[0]
        return next(actor for name in BOTH for actor in self.actors(name) if parents()[actor] != head)

    def go_on(self) -> None:
        """Let candidates wait no longer."""
        (self.made.root / "wait").unlink()

    def says(self, pattern: str) -> bool:
        """Whether it prints something like ``pattern`` sooner or later."""
        return wait_until(lambda: bool(re.search(pattern, self.printed)) or self.driver.poll() is not None, _PATIENCE_S)

    def output(self) -> str:
        """What it has printed, once it has ended."""
        self.driver.wait(timeout=2 * _PATIENCE_S)
        return self.printed

    def left(self) -> list[int]:
        """Processes that it has started, whoever has killed or adopted them meanwhile."""
        return with_variable(_BEGUN_BY, self.mark)
