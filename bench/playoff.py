"""How many rounds a play-off should take: what its choice is worth, against the blocks that it costs.

`record` searches the timed kernels of the race's open half with the plugin itself, 200 evaluations each. Of every
search it keeps the 32 best by their scores, each measured in 24 rounds by the worker of the search, as a play-off does,
and four times in each of eight fresh workers. `report` replays play-offs on these numbers: the three best go on to a
proof, which takes four of the fresh workers, and the choice is judged by all eight. Printed is the mean share of the
way from the baseline to the best of the 32.

    python bench/playoff.py record recorded.json       a minute for each of ten kernels; on a quiet machine
    python bench/playoff.py report recorded.json
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pytest_compileiq.search.finalists import PLAYOFF
from pytest_compileiq.tuning.winner import FINALISTS
from race_build import BASELINE, DRIVERS
from race_open import HALF, TIMED

KEPT, ROUNDS, WORKERS, BLOCKS = 32, 24, 8, 4
PROOF = 4  # of the fresh workers
DRAWS = 400
RULES = {
    "8 × 3": (8, ((3, FINALISTS),)),
    "8 × 6": (8, ((6, FINALISTS),)),
    "8 × 12": (8, ((12, FINALISTS),)),
    "8 × 24": (8, ((24, FINALISTS),)),
    "16 × 3": (16, ((3, FINALISTS),)),
    "32 × 3": (32, ((3, FINALISTS),)),
    "16 × 3, the best 8 to 9": (16, ((3, PLAYOFF), (9, FINALISTS))),
    "32 × 2, the best 8 to 6": (32, ((2, PLAYOFF), (6, FINALISTS))),
    "16 × 6, the best 8 to 12": (16, ((6, PLAYOFF), (12, FINALISTS))),
    "32 × 3, the best 16 to 6, 8 to 12": (32, ((3, 16), (6, PLAYOFF), (12, FINALISTS))),
    "32 × 6, the best 16 to 12, 8 to 24": (32, ((6, 16), (12, PLAYOFF), (24, FINALISTS))),
}
TEST = """\
import ctypes
import pytest
from pytest_compileiq import Cc

driver = ctypes.CDLL({driver!r})
driver.race_prepare()
driver.race_call.argtypes = ctypes.c_void_p, ctypes.c_int
symbol = ctypes.c_char_p.in_dll(driver, "race_symbol").value.decode()
address = ctypes.c_void_p.in_dll(driver, "race_output").value
size = ctypes.c_size_t.in_dll(driver, "race_output_bytes").value

def left_by(function):
    ctypes.memset(address, 0, size)
    driver.race_call(function, 0)
    return ctypes.string_at(address, size)

@pytest.fixture(scope="session")
def expected():
    return {{}}

@pytest.mark.tune(Cc({source!r}, flags={flags!r}), budget=200)
def test_kernel(acf, expected):
    function = ctypes.cast(acf.build().load()[symbol], ctypes.c_void_p)
    output = left_by(function)
    if acf.is_baseline:
        expected["output"] = output
    assert output == expected.get("output", output)
    acf.measure(lambda: driver.race_call(function, 0))
"""
PLUGIN = """\
import json
from pytest_compileiq.search import finalists
from pytest_compileiq.tuning import winner

def recorded(scored, scorer, tally, progress):
    best = sorted((each for each in scored if each.scores[0] < 0), key=lambda each: each.scores)[:{kept}]
    def score(each):
        return scorer.settled(each, scorer.round(each.controls, 0)).scores[0]
    def measured(blocks):
        return [[score(each) for each in best] for _ in range(blocks)]
    rounds, workers = measured({rounds}), []
    for _ in range({workers}):
        scorer.pool.discard(0)
        workers.append(measured({blocks}))
    with open("recorded.json", "w") as file:
        json.dump(dict(rounds=rounds, workers=workers), file)
    raise KeyboardInterrupt

winner.choose_finalists = recorded
"""


@dataclass(frozen=True)
class Recorded:
    """What was measured of the best n of one search, as log-ratios to the baseline, in the order of their scores.

    Attributes:
        rounds: shape (ROUNDS, n).
        workers: the median of each fresh worker's blocks, shape (WORKERS, n).
    """

    rounds: np.ndarray
    workers: np.ndarray

    @property
    def true(self) -> np.ndarray:
        """What each candidate is worth, shape (n,)."""
        return np.asarray(self.workers.mean(axis=0))

    @classmethod
    def of(cls, kept: dict[str, list[object]]) -> "Recorded":
        return cls(np.array(kept["rounds"]), np.median(np.array(kept["workers"]), axis=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("record", "report"))
    parser.add_argument("file", type=Path)
    asked = parser.parse_args()
    if asked.command == "record":
        asked.file.write_text(json.dumps({name: record(name) for name in TIMED}))
    else:
        report([Recorded.of(kept) for kept in json.loads(asked.file.read_text()).values()])


def record(name: str) -> dict[str, list[object]]:
    """What the search of one kernel gives to measure, and what measuring it gave."""
    source = HALF.own(name)
    assert source.driver is not None
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        driver = project / "driver.so"
        given = [f"-I{DRIVERS}", "-DRACE_DRIVER", *source.flags]
        subprocess.run(["gcc", "-O2", "-w", "-shared", "-fPIC", *given, source.driver, "-o", driver, "-lm"], check=True)
        flags = " ".join([*BASELINE, "-lm", *source.flags])
        (project / "pytest.ini").touch()
        test = TEST.format(driver=str(driver), source=os.path.relpath(source.path, project), flags=flags)
        (project / "test_kernel.py").write_text(test)
        plugin = PLUGIN.format(kept=KEPT, rounds=ROUNDS, workers=WORKERS, blocks=BLOCKS)
        (project / "recording.py").write_text(plugin)
        command = [sys.executable, "-m", "pytest", "-precording", "--tune", "-q"]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        if not (written := project / "recorded.json").exists():
            sys.exit(f"{name}: nothing was recorded\n{done.stdout}{done.stderr}")
        print(name, flush=True)
        return json.loads(written.read_text())


def report(searches: Sequence[Recorded]) -> None:
    """Print what each rule's choice is worth."""
    print(f"{'candidates × rounds':<36}{'blocks':>7}{'of the way':>12}")
    for name, (entrants, stages) in RULES.items():
        random = np.random.default_rng(0)
        shares = [value(search, entrants, stages, random) / search.true.min() for search in searches]
        print(f"{name:<36}{blocks(entrants, stages):>7}{np.mean(shares):>12.3f}")
    for entrants in (1, PLAYOFF, 16):
        shares = [search.true[:entrants].min() / search.true.min() for search in searches]
        print(f"{f'the best of the first {entrants}':<36}{'':>7}{np.mean(shares):>12.3f}")


def value(search: Recorded, entrants: int, stages: Sequence[tuple[int, int]], random: np.random.Generator) -> float:
    """The true log-ratio of what is chosen, in the mean of many draws; a stage is rounds so far and who is left."""
    chosen = []
    for _ in range(DRAWS):
        rounds, proof = random.permutation(search.rounds), random.permutation(search.workers)[:PROOF].mean(axis=0)
        left = np.arange(min(entrants, len(search.true)))
        for until, stay in stages:
            left = left[np.argsort(np.median(rounds[:until][:, left], axis=0), kind="stable")[:stay]]
        chosen.append(search.true[left[np.argmin(proof[left])]])
    return float(np.mean(chosen))


def blocks(entrants: int, stages: Sequence[tuple[int, int]]) -> int:
    """How many blocks a play-off takes."""
    taken, before = 0, 0
    for until, stay in stages:
        taken, before, entrants = taken + entrants * (until - before), until, stay
    return taken


if __name__ == "__main__":
    main()
