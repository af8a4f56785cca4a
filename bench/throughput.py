"""Evaluations a second of a search, against a bare loop over the very same compiler commands.

A search of an exact metric only compiles. Its compiler commands are recorded, and run again by as many threads as the
search had jobs, doing nothing else: no engine, no digest, no journal. In turn, several times. The second kernel's
compiler takes seconds, as nvcc does on most kernels; it is left out where there is no nvcc.

    python bench/throughput.py [--budget 200] [--jobs 2] [--rounds 3]
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from machine import describe
from pytest_compileiq.toolchains.nvidia.tools import installed

KERNELS = Path(__file__).parents[1] / "tests" / "kernels"
TEST = """\
import pytest
from pytest_compileiq import Cc, Nvcc, minimize

@pytest.mark.tune(%s, space="options", objectives=[minimize("code_bytes")])
def test_k(acf):
    acf.build()
"""
# What is compiled, and which share of the budget is enough of it.
SEARCHES = {
    "wire.c by gcc": (KERNELS / "wire.c", 'Cc("wire.c", flags="-O2 -march=x86-64-v3")', 1.0),
    "matmul.cu by nvcc": (KERNELS / "cuda" / "matmul.cu", 'Nvcc("matmul.cu", arch="sm_90a", output="cubin")', 0.3),
}
# Every process that builds a candidate is recorded with the small files it finds there, which are gone after the run.
CONFTEST = """
import json, re, subprocess
from pathlib import Path

recorded, original = [], subprocess.Popen.__init__
HOME = re.compile(r"/[^ =,@]*/compileiq-[^/]+/[0-9a-f]{16}/[0-9a-f]{32}(?=/)")

def start(self, argv, *arguments, **named):
    words = list(map(str, argv)) if isinstance(argv, list) else []
    if home := next((found[0] for word in words if (found := HOME.search(word))), None):
        files = {one.name: one.read_text() for one in Path(home).glob("*.rsp")}
        recorded.append({"argv": words, "cwd": str(named.get("cwd") or "."), "home": home, "files": files})
    original(self, argv, *arguments, **named)

subprocess.Popen.__init__ = start

def pytest_unconfigure(config):
    Path("commands.json").write_text(json.dumps(recorded))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    print(describe())
    for name, (kernel, toolchain, share) in SEARCHES.items():
        if "nvcc" in name and not any(installed("nvcc")):
            print(f"{name}: left out, there is no nvcc")
            continue
        budget = round(asked.budget * share)
        ratios = [one_round(kernel, TEST % toolchain, budget, asked.jobs, seed) for seed in range(asked.rounds)]
        for found in ratios:
            print(f"{name}: search {found[0]:.1f} s, bare loop {found[1]:.1f} s, {found[1] / found[0]:.2f}", flush=True)
        print(f"{name}: {statistics.median(bare / search for search, bare in ratios):.2f} of the bare loop's speed")


def one_round(kernel: Path, text: str, budget: int, jobs: int, seed: int) -> tuple[float, float]:
    """Seconds of the search, and of the bare loop over its commands."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        shutil.copy(kernel, home)
        for file, content in {"pytest.ini": "[pytest]\n", "test_k.py": text, "conftest.py": CONFTEST}.items():
            (home / file).write_text(content)
        command = [sys.executable, "-m", "pytest", "-q", "--tune", f"--tune-budget={budget}", f"--tune-seed={seed}"]
        done = subprocess.run([*command, f"--tune-jobs={jobs}"], cwd=home, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        (metadata,) = home.glob("acf/*/*.toml")
        search_s = tomllib.loads(metadata.read_text())["search"]["seconds"]
        return search_s, bare_loop(json.loads((home / "commands.json").read_text()), jobs, home / "bare")


def bare_loop(recorded: list[dict], jobs: int, scratch: Path) -> float:
    """Run the candidates' commands again: one candidate's in order, candidates in parallel."""
    candidates: dict[str, list[dict]] = {}
    for one in recorded:
        candidates.setdefault(one["home"], []).append(one)

    def build(home: str) -> None:
        here = scratch / Path(home).name
        here.mkdir(parents=True)
        for one in candidates[home]:
            for file, content in one["files"].items():
                (here / file).write_text(content)
            argv = [argument.replace(home, str(here)) for argument in one["argv"]]
            subprocess.run(argv, cwd=one["cwd"], capture_output=True, check=False)

    start = time.perf_counter()
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(build, candidates))
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
