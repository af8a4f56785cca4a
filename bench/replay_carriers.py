"""Replaying many artifacts: by one process, by xdist's, and by Ray's.

One project of cloned artifacts (``replay_cost.py``), its build cache filled, is replayed in turn by plain pytest, by
``pytest -n N``, and by N tasks of a Ray cluster of its own, each a pytest on its share of the tests. What counts is the
wall time of all, since that is what a person waits for: the start of xdist's processes and of Ray's is in it.

    python bench/replay_carriers.py [--artifacts 1000] [--sources 100] [--processes 2] [--rounds 3]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from machine import describe
from replay_cost import make

REPLAY = [sys.executable, "-m", "pytest", "-q", "--acf-check=replay"]
ENVIRONMENT = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t" * 32, "RAY_USAGE_STATS_ENABLED": "0"}
BY_RAY = """\
import subprocess, sys
import ray

ray.init(address="local", include_dashboard=False, num_cpus=int(sys.argv[1]), object_store_memory=100 * 2**20,
         log_to_driver=False, _temp_dir=sys.argv[2])

@ray.remote(num_cpus=1)
def replay(command):
    return subprocess.run(command, capture_output=True, text=True)

shares = [replay.remote([*sys.argv[3:], f"@share-{number}"]) for number in range(int(sys.argv[1]))]
ends = ray.get(shares)
print(*(end.stdout for end in ends))
sys.exit(max(end.returncode for end in ends))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", type=int, default=1000)
    parser.add_argument("--sources", type=int, default=100)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    print(describe())
    processes = str(asked.processes)
    with tempfile.TemporaryDirectory(prefix="", dir="/tmp") as home:
        root = Path(home) / "p"
        make(root, asked.artifacts, asked.sources)
        (root / "by_ray.py").write_text(BY_RAY)
        for share in range(asked.processes):
            names = [f"test_all.py::test_k{number:04}" for number in range(share, asked.artifacts, asked.processes)]
            (root / f"share-{share}").write_text("\n".join(names))
        carriers: dict[str, Callable[[], float]] = {
            "one process": lambda: seconds(root, [*REPLAY, "test_all.py"]),
            f"xdist, {processes} processes": lambda: seconds(root, [*REPLAY, "-n", processes, "test_all.py"]),
            f"Ray, {processes} tasks": lambda: seconds(root, [sys.executable, "by_ray.py", processes, home, *REPLAY]),
        }
        seconds(root, [*REPLAY, "test_all.py"])  # fills the cache
        taken: dict[str, list[float]] = {name: [] for name in carriers}
        for _ in range(asked.rounds):
            for name, replay in carriers.items():
                taken[name].append(replay())
        alone = statistics.median(taken["one process"])
        for name, values in taken.items():
            median = statistics.median(values)
            print(f"{name}: {median:.1f} s for {asked.artifacts} artifacts, {median / alone:.2f} of one process")


def seconds(root: Path, command: list[str]) -> float:
    """Wall time of a replay that passes."""
    begun = time.perf_counter()
    done = subprocess.run(command, cwd=root, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout[-3000:] + done.stderr[-2000:])
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
