"""One night of ten benchmarks, killed at random moments by SIGKILL until it is through: is anything lost, or repeated?

    python bench/night_kills.py [--kills 20] [--total 600] [--seed 0]

Looked for are finished evaluations that are gone from a journal or were made twice, artifacts that are torn, proven
again or missing, and processes that outlived their night.
"""

import argparse
import csv
import random
import tempfile
import time
import tomllib
from collections import Counter
from pathlib import Path

from kills import KERNEL, alive, in_journal, start, wait
from machine import describe

BENCHMARKS = 10
TEST = """\
import pytest
from pytest_compileiq import Cc, minimize
"""
ONE = """
@pytest.mark.tune(Cc("wire.c", flags="-O{level}"), objectives=[minimize("code_bytes")], seed={number})
def test_wire{number}(acf):
    acf.build()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--total", type=int, default=600, help="evaluations of the night (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(describe())
    coins = random.Random(options.seed)
    kills = runs = lost = again = 0
    with tempfile.TemporaryDirectory() as home:
        project = make_project(Path(home) / "project")
        kept: set[tuple[object, ...]] = set()
        closed: dict[str, bytes] = {}
        is_through = False
        while not is_through:
            runs += 1
            # The last run is left alone.
            night = start(project, "-p", "no:randomly", f"--tune-total={options.total}", "--tune-tracker=csv:told.csv")
            is_through = wait(night, 1 + 9 * coins.random() if kills < options.kills else 3600)
            kills += not is_through
            now, artifacts = evaluations(project), stored(project)
            lost += len({row for row in kept if row[0] not in artifacts} - now)
            again += sum(artifacts.get(name) != content for name, content in closed.items())
            kept, closed = now, artifacts
        repeated = sum(count - 1 for count in told(project).values())
        time.sleep(1)
        left = alive()
    print(
        f"{kills} kills in one night of {BENCHMARKS} benchmarks, {options.total} evaluations: {lost} evaluations lost, "
        f"{repeated} repeated, {len(closed)} of {BENCHMARKS} benchmarks stored, {again} of them twice, "
        f"{left} processes left"
    )


def make_project(root: Path) -> Path:
    root.mkdir()
    (root / "pytest.ini").write_text("[pytest]\ntune_reduce = false\n")
    (root / "wire.c").write_bytes(KERNEL.read_bytes())
    tests = [ONE.format(level=1 + number % 3, number=number) for number in range(BENCHMARKS)]
    (root / "test_wire.py").write_text(TEST + "".join(tests))
    return root


def evaluations(project: Path) -> set[tuple[object, ...]]:
    """(benchmark, number, digest) of every finished evaluation in the journal."""
    rows = in_journal(project, "benchmark, number, digest")
    return {(str(benchmark).partition("test_wire.py::test_")[2], number, digest) for benchmark, number, digest in rows}


def stored(project: Path) -> dict[str, bytes]:
    """Benchmark → its artifact, which is whole."""
    found = {path.parent.name: path.read_bytes() for path in project.glob("acf/*/*.toml")}
    for content in found.values():
        tomllib.loads(content.decode())
    return found


def told(project: Path) -> Counter[tuple[str, str]]:
    """(benchmark, number) → how often that evaluation was made."""
    with (project / "told.csv").open(newline="", encoding="utf-8") as stream:
        return Counter((row["benchmark"], row["number"]) for row in csv.DictReader(stream))


if __name__ == "__main__":
    main()
