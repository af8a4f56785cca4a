"""Evaluations a second of a search, against a bare loop over the very same compiler commands.

A search of an exact metric only compiles. Its compiler commands are recorded, and run again by as many threads as the
search had jobs, doing nothing else: no engine, no digest, no journal. In turn, several times.

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

KERNELS = Path(__file__).parents[1] / "tests" / "kernels"
TESTS = {
    "wire.c, all of gcc's options": (
        ["wire.c"],
        """\
import pytest
from pytest_compileiq import Cc, minimize

@pytest.mark.tune(Cc("wire.c", flags="-O2 -march=x86-64-v3"), objectives=[minimize("code_bytes")])
def test_k(acf):
    acf.build()
""",
    ),
}
# Every process that a build starts is recorded with the options file it reads, which is gone after the run.
CONFTEST = """
import json, subprocess
from pathlib import Path

recorded, original = [], subprocess.Popen.__init__

def start(self, argv, *arguments, **named):
    if isinstance(argv, list) and Path(str(argv[0])).name == "gcc":
        files = {one: Path(one[1:]).read_text() for one in map(str, argv) if one.startswith("@")}
        recorded.append({"argv": list(map(str, argv)), "cwd": str(named.get("cwd") or "."), "files": files})
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
    for name, (files, text) in TESTS.items():
        ratios = [one_round(files, text, asked.budget, asked.jobs, seed) for seed in range(asked.rounds)]
        for found in ratios:
            print(f"{name}: search {found[0]:.1f} s, bare loop {found[1]:.1f} s, {found[1] / found[0]:.2f}", flush=True)
        print(f"{name}: {statistics.median(bare / search for search, bare in ratios):.2f} of the bare loop's speed")


def one_round(files: list[str], text: str, budget: int, jobs: int, seed: int) -> tuple[float, float]:
    """Seconds of the search, and of the bare loop over its commands."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for file in files:
            shutil.copy(KERNELS / file, home)
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
        if "-o" in one["argv"] and (home := str(Path(one["argv"][one["argv"].index("-o") + 1]).parent)) != ".":
            candidates.setdefault(home, []).append(one)
    candidates = {home: ones for home, ones in candidates.items() if any(one["files"] for one in ones)}

    def build(home: str) -> None:
        here = scratch / Path(home).name
        here.mkdir(parents=True)
        for one in candidates[home]:
            for file, content in one["files"].items():
                (here / Path(file.lstrip("@")).name).write_text(content)
            argv = [argument.replace(home, str(here)) for argument in one["argv"]]
            subprocess.run(argv, cwd=one["cwd"], capture_output=True, check=False)

    start = time.perf_counter()
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(build, candidates))
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
