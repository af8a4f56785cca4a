"""Macros and compiler options searched together, against either alone, each time head to head on fresh samples.

A search over both begins beside the committed winner of the search over one, which stays unless the new one is proven
faster than it.

    python bench/joined_space.py [--budget 100] [--seed 0]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import describe

KERNEL = Path(__file__).parent / "kernels_tiled"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=100, help="evaluations of each search (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(describe())
    beaten = [beats(alone, asked.budget, asked.seed) for alone in ("options", "tiles")]
    return 0 if all(beaten) else 1


def beats(alone: str, budget: int, seed: int) -> bool:
    """Search one space, then both: whether the second winner was proven faster than the first."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        shutil.copytree(KERNEL, project, ignore=shutil.ignore_patterns("__pycache__"))
        (project / "pytest.ini").touch()
        lines = [tune(project, space, budget, seed) for space in (alone, "both")]
    for space, line in zip((alone, f"both, after {alone}"), lines, strict=True):
        print(f"{space:<20}{line}", flush=True)
    return " TUNED " in lines[1]


def tune(project: Path, space: str, budget: int, seed: int) -> str:
    """The line that pytest prints of the artifact."""
    command = [sys.executable, "-m", "pytest", "--tune", f"--tune-budget={budget}", f"--tune-seed={seed}"]
    environment = {**os.environ, "SPACE": space}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return next(line for line in done.stdout.splitlines() if line.startswith("matmul  "))


if __name__ == "__main__":
    sys.exit(main())
