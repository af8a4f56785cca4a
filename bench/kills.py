"""Searches killed at random moments: is a finished evaluation lost or made twice, an artifact torn, a process left?

One search after the other of a C kernel's size, each killed again and again by SIGKILL until it gets through.

    python bench/kills.py [--kills 100] [--budget 60] [--seed 0]
    PYTHONPATH=$PWD python bench/kills.py --where ray|cluster

With ``--where ray`` the searches are on clusters of their own, with ``cluster`` on one of three nodes that this script
begins; then actors and nodes are killed as well, and the winner is compared with that of a search that nobody killed.
"""

import argparse
import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from machine import describe
from pytest_compileiq.system.watchdog import of_each_process

KERNEL = Path(__file__).parents[1] / "tests" / "kernels" / "wire.c"
TEST = """\
import pytest
from pytest_compileiq import Cc, minimize

@pytest.mark.tune(Cc("wire.c", flags="-O2"), objectives=[minimize("code_bytes")])
def test_wire(acf):
    acf.build()
"""
MARK = "COMPILEIQ_KILLS_BENCH"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--where", choices=("here", "ray", "cluster"), default="here")
    options = parser.parse_args()
    print(describe())
    if options.where != "here":
        import ray_kills  # it needs Ray, and the tests' clusters

        print(ray_kills.kill(options.where, options.kills, options.budget, options.seed))
        return
    coins = random.Random(options.seed)
    kills = searches = lost = repeated = torn = 0
    with tempfile.TemporaryDirectory() as home:
        while kills < options.kills:
            project = make_project(Path(home) / str(searches))
            searches += 1
            kept: list[tuple[object, ...]] = []
            while True:
                process = start(project, f"--tune-budget={options.budget}", f"--tune-seed={searches}")
                ended = wait(process, 0.2 + 5 * coins.random())
                now = finished(project)
                kills += not ended
                if list(project.glob("acf/*/*.toml")):  # it was through, and has forgotten its journal
                    break
                lost += kept != now[: len(kept)]
                repeated += len({row[1:] for row in now}) != len(now)
                kept = now
            for metadata in project.glob("acf/*/*.toml"):
                torn += tomllib.loads(metadata.read_text())["search"]["evaluations"] != options.budget
            torn += not list(project.glob("acf/*/*.toml"))
        time.sleep(1)
        left = alive()
    print(
        f"{kills} kills over {searches} searches of {options.budget} evaluations: {lost} lost, {repeated} repeated, "
        f"{torn} artifacts torn or missing, {left} processes left"
    )


def make_project(root: Path, test: str = TEST) -> Path:
    root.mkdir()
    (root / "pytest.ini").touch()
    (root / "wire.c").write_bytes(KERNEL.read_bytes())
    (root / "test_wire.py").write_text(test)
    return root


def start(project: Path, *words: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "pytest", "-q", "--tune", *words]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(argv, cwd=project, stdout=quiet, stderr=quiet, env={**os.environ, MARK: "1"})


def wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether it ended by itself within ``seconds``; else it is killed."""
    try:
        return process.wait(timeout=seconds) == 0
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return False


def in_journal(project: Path, columns: str) -> list[tuple[object, ...]]:
    """These columns of every finished evaluation in the journal, by its number."""
    try:
        path = f"file:{project}/.compileiq/journal.sqlite3?mode=ro"
        with contextlib.closing(sqlite3.connect(path, uri=True, timeout=30)) as journal:
            return journal.execute(f"SELECT {columns} FROM evaluation ORDER BY number").fetchall()
    except sqlite3.OperationalError:  # not made yet
        return []


def finished(project: Path) -> list[tuple[object, ...]]:
    """Every finished evaluation in the journal: its number first, then its batch and place."""
    return in_journal(project, "number, batch, place")


def alive() -> int:
    """Processes that a search started and that outlived it."""
    return sum(f"{MARK}=1".encode() in environ.split(b"\0") for _, environ in of_each_process("environ"))


if __name__ == "__main__":
    main()
