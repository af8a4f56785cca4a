"""Searches that cannot help: every candidate is the baseline's own machine code. How many commit a speed-up?

The space holds labels that the body reads and does nothing with, so that candidates are told apart, and measured.
Inputs are drawn from acf.rng and outputs are checked, so that finalists are stressed; what is proven would be reduced,
and proven again. Nothing should be.

    python bench/hopeless.py [--searches 300] [--seed 0] [--results FILE] [--devices 1]

With ``--results`` what is finished is appended to FILE, and the same command goes on behind it. With several devices
the searches run on a Ray cluster of so many nodes of this machine, each of which takes itself for a machine of its own:
a proof is on all of them.
"""

import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from local_cluster import TOKEN, local_cluster
from machine import describe

KERNELS = Path(__file__).parent / "kernels"
TEST_PY = """\
import ctypes

import numpy as np
import pytest
from pytest_compileiq import Cc, literal

POINTS, CENTROIDS, DIMENSIONS = 128, 16, 24
LABELS = [f"label{number}" for number in range(10)]


@pytest.mark.tune(
    Cc("nearest_centroid.c", flags="-O2 -march=x86-64-v3 -ffp-contract=off"),
    space={label: literal(1, knockout_prob=0.5) for label in LABELS},
)
def test_kernel(acf):
    [acf.params.get(label) for label in LABELS]
    points = acf.rng.random((POINTS, DIMENSIONS), dtype=np.float32)
    centroids = acf.rng.random((CENTROIDS, DIMENSIONS), dtype=np.float32)
    nearest = np.full(POINTS, -1, np.int32)
    kernel = acf.build().load().nearest_centroid
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (points, centroids, nearest)]
    acf.measure(lambda: kernel(*pointers, POINTS, CENTROIDS, DIMENSIONS), outputs=[nearest])
    acf.compare("nearest", nearest)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="of the first search; the others count from there")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--devices", type=int, default=1)
    options = parser.parse_args()
    print(describe())
    results = options.results or Path(tempfile.mkdtemp()) / "hopeless.csv"
    done = dict(csv.reader(results.open())) if results.exists() else {}
    with on_devices(options.devices) as words:
        for seed in range(options.seed, options.seed + options.searches):
            if str(seed) not in done:
                done[str(seed)] = outcome = search(seed, words)
                with results.open("a", newline="") as file:
                    csv.writer(file).writerow((seed, outcome))
    tuned = [seed for seed, outcome in done.items() if outcome.startswith("tuned")]
    stressed = sum("stressed" in outcome for outcome in done.values())
    print(
        f"{len(tuned)} of {len(done)} searches in which nothing can help committed a speed-up; {stressed} stressed "
        f"their finalists; seeds that did: {', '.join(tuned) or 'none'}"
    )
    sys.exit(bool(tuned))


@contextmanager
def on_devices(devices: int) -> Iterator[list[str]]:
    """The options that have a search on so many devices."""
    if devices == 1:
        yield []
        return
    nodes = [{"env_vars": {"ACF_MACHINE": f"machine-{number}"}} for number in range(devices)]
    with local_cluster(nodes) as address:
        os.environ.update(TOKEN)
        yield [f"--tune-on={address}"]


def search(seed: int, words: Sequence[str]) -> str:
    """The outcome, and what the run did besides."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        shutil.copy(KERNELS / "nearest_centroid.c", home)
        (home / "test_kernel.py").write_text(TEST_PY)
        (home / "pytest.ini").write_text("[pytest]\n")
        command = [sys.executable, "-m", "pytest", "-q", "--tune", "--tune-budget=12", f"--tune-seed={seed}", *words]
        ran = subprocess.run(command, cwd=home, check=False, capture_output=True, text=True)
        found = list(home.glob("acf/*/*.toml"))
        if ran.returncode or not found:
            sys.exit(f"seed {seed}: the search did not end as it should:\n{ran.stdout}{ran.stderr}")
        outcome = tomllib.loads(found[0].read_text())["outcome"]
        did = [word for word, said in (("stressed", "stress: "), ("reduced", "reducing ")) if said in ran.stdout]
        print(f"seed {seed}: {outcome} {' '.join(did)}", flush=True)
        return " ".join((outcome, *did))


if __name__ == "__main__":
    main()
