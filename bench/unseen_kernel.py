"""What a short search is worth on a kernel that it was not designed for: the default engine on a small budget against
random search on a large one. Compared are the gains as proven on fresh samples, never the searches' own scores.

    python bench/unseen_kernel.py [--seeds 3] [--budget 60] [--random-budget 400] [--kernel bench/kernels_later]
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from machine import describe

KERNELS = Path(__file__).parent / "kernels"


@dataclass(frozen=True)
class Outcome:
    """What one search proved. ``speedup`` and its 95 % interval are 1 where the defaults won."""

    engine: str
    evaluations: int
    seconds: float
    verdict: str
    speedup: float
    low: float
    high: float

    @property
    def gain(self) -> float:
        return self.speedup - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="searches of each kind (default: %(default)s)")
    parser.add_argument(
        "--budget", type=int, default=60, help="the default engine's evaluations (default: %(default)s)"
    )
    parser.add_argument("--random-budget", type=int, default=400, help="of random search (default: %(default)s)")
    parser.add_argument("--kernel", type=Path, default=KERNELS, help="folder of its source and its test")
    asked = parser.parse_args()
    print(describe())
    print(f"{'seed':>4}  {'engine':<8}{'evaluations':>12}{'seconds':>9}  {'verdict':<10}proven speed-up")
    shares = []
    for seed in range(asked.seeds):
        found = search(asked.kernel, seed, [f"--tune-budget={asked.budget}"])
        floor = search(asked.kernel, seed, ["--tune-engine=random", f"--tune-budget={asked.random_budget}"])
        for outcome in (found, floor):
            print(row(seed, outcome), flush=True)
        if floor.gain > 0:
            shares.append(found.gain / floor.gain)
            print(f"{seed:>4}  gain found / gain of random = {shares[-1]:.2f}", flush=True)
    if len(shares) > 1:
        print(f"median of {len(shares)} seeds: {statistics.median(shares):.2f}")


def search(kernel: Path, seed: int, options: Sequence[str]) -> Outcome:
    """Tune a fresh copy of the kernel in the folder, so that no journal or artifact of another search helps."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        shutil.copytree(kernel, project, ignore=shutil.ignore_patterns("__pycache__"))
        (project / "pytest.ini").touch()
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pytest", "--tune", f"--tune-seed={seed}", f"--acf-report={report}", *options]
        start = time.perf_counter()
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - start
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return read_outcome(project, report, seconds)


def read_outcome(project: Path, report: Path, seconds: float) -> Outcome:
    """The verdict is the report's, the numbers are the committed artifact's."""
    (item,) = json.loads(report.read_text(encoding="utf-8"))["items"]
    artifacts = list(project.glob("acf/*/*.toml"))
    if len(artifacts) != 1:
        sys.exit(f"the search stored {len(artifacts)} artifacts, expected 1: {item['verdict']}: {item['message']}")
    artifact = tomllib.loads(artifacts[0].read_text(encoding="utf-8"))
    record = artifact["search"]
    gains = [claim for claim in artifact.get("claims", []) if claim["kind"] == "gain"]
    low, speedup, high = (
        [gains[0][key] for key in ("speedup_low", "speedup", "speedup_high")] if gains else [1.0, 1.0, 1.0]
    )
    return Outcome(record["engine"], record["evaluations"], seconds, item["verdict"], speedup, low, high)


def row(seed: int, done: Outcome) -> str:
    """One line of the table."""
    interval = f"{done.speedup:.3f} ({done.low:.3f} to {done.high:.3f})"
    return f"{seed:>4}  {done.engine:<8}{done.evaluations:>12}{done.seconds:>9.0f}  {done.verdict:<10}{interval}"


if __name__ == "__main__":
    main()
