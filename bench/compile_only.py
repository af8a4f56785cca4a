"""What the plugin adds to a compile-only search: the same CompileIQ search on the same kernel, by hand and by --tune.

By hand is what one would write: ask for a generation, assemble it on as many workers, read the spills from
``ptxas -v``, tell. The plugin does more: it isolates, digests machine code, drops duplicates, proves and stores. Wall
times of both are taken in turn in one run, processes and imports included.

    CIQ_SEARCH_SPACES_DIR=… python bench/compile_only.py [--evaluations 200] [--rounds 3]
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from machine import describe
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.nvidia.tools import find_tool

SOURCE = Path(__file__).parents[1] / "tests" / "kernels" / "cuda" / "attention.cu"
TEST = """\
import pytest
from pytest_compileiq import Ptxas, minimize

@pytest.mark.tune(Ptxas("k.ptx", arch="sm_90a"), objectives=[minimize("spill_bytes")])
def test_k(acf):
    acf.build()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--by-hand", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.by_hand:
        search_by_hand(options.by_hand, options.evaluations)
        return
    print(describe())
    with tempfile.TemporaryDirectory() as home:
        project = make_project(Path(home))
        tune = [sys.executable, "-m", "pytest", "-q", "--tune", f"--tune-budget={options.evaluations}"]
        hand = [sys.executable, __file__, f"--by-hand={project}", f"--evaluations={options.evaluations}"]
        ratios = []
        for number in range(options.rounds):
            by_hand, by_plugin = timed(hand, project), timed([*tune, f"--tune-seed={number}"], project)
            ratios.append(by_plugin / by_hand)
            print(f"by hand {by_hand:.1f} s, --tune {by_plugin:.1f} s: {ratios[-1]:.2f} times", flush=True)
    print(f"median of {options.rounds}: {statistics.median(ratios):.2f} times, {options.evaluations} evaluations")


def make_project(home: Path) -> Path:
    project = home / "project"
    project.mkdir()
    (project / "pytest.ini").touch()
    (project / "test_k.py").write_text(TEST)
    nvcc = find_tool("nvcc", None, Place(project, project)).program
    subprocess.run([nvcc, "-arch=sm_90a", "-O3", "-ptx", str(SOURCE), "-o", "k.ptx"], cwd=project, check=True)
    return project


def timed(command: list[str], project: Path) -> float:
    for artifact in project.glob("acf/*/*"):
        artifact.unlink()
    start = time.perf_counter()
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - start


def search_by_hand(project: Path, evaluations: int) -> None:
    from compileiq.ciq import Search
    from compileiq.search_spaces.compilers import PtxasSearchSpace
    from compileiq.types import INVALID_SCORE, Score, SearchConfiguration, WorkerTypes

    ptxas = find_tool("ptxas", None, Place(project, project)).program

    def spills(number: int, acf: str) -> object:
        controls, made = project / f"{number}.acf", project / f"{number}.cubin"
        controls.write_bytes(bytes.fromhex(acf))
        argv = [ptxas, "-arch=sm_90a", "-v", f"--apply-controls={controls}", "k.ptx", "-o", str(made)]
        done = subprocess.run(argv, cwd=project, capture_output=True, text=True, check=False, timeout=60)
        found = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr + done.stdout)
        return float(found[1]) + float(found[2]) if done.returncode == 0 and found else INVALID_SCORE

    search = Search(
        objective_function=print, search_space=PtxasSearchSpace(), worker_type=WorkerTypes.MANUAL,
        search_config=SearchConfiguration(generations=1000), disable_progress_bar=True, exit_on_failure=False,
        cache_folder=str(project / "cache"),
    )  # fmt: skip
    done = 0
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        while done < evaluations:
            asked = search.ask(min(32, evaluations - done))
            found = workers.map(lambda pair: spills(*pair), enumerate(one.params for one in asked))
            scores = [
                Score(score=score, param_id=one.param_id, num_objectives=1)
                for one, score in zip(asked, found, strict=True)
            ]
            search.tell(scores)
            done += len(asked)


if __name__ == "__main__":
    main()
