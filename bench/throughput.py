"""Evaluations a second of a search, against a bare loop over the very same compiler commands.

A search of an exact metric only compiles. Its compiler commands are recorded, and run again by as many threads as the
search had jobs, doing nothing else: no engine, no digest, no journal. In turn, several times. Beside wall time, which
others on the machine disturb, stands the processor's: where compilers keep every core busy, wall time is
proportional to it. What is left out is said: nvcc, whose compiler takes seconds on most kernels, and Triton, where they
are not installed. What a search does once for many candidates, the bare loop does for each: linking the same objects,
nvcc's front end, loading Triton. The last compilers only sleep, on 16 jobs: what limits them is the one process that
asks and tells.

    python bench/throughput.py [--budget 200] [--jobs 2] [--rounds 3] [--only gcc]
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from machine import describe
from pytest_compileiq.toolchains.nvidia.tools import installed

KERNELS = Path(__file__).parents[1] / "tests" / "kernels"
TEST = """\
import pytest
from pytest_compileiq import Cc, Command, Nvcc, Triton, choice, literal, minimize

@pytest.mark.tune(%s, objectives=[minimize("code_bytes")])
def test_k(acf):
    acf.build()
"""
SLEEPS_S = (0.1, 0.3)
# Writes its options, a different number of bytes for each set of them, so that there is something to find.
SLEEPER = """\
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (argc < 3) return puts("sleeper 1.0"), 0;
    usleep(1e6 * atof(argv[2]));
    FILE *out = fopen(argv[1], "w");
    for (int i = 2; i < argc; i++) fputs(argv[i], out);
    return fclose(out);
}
"""
OF_PTXAS = (
    '{"-Xptxas=--register-usage-level=": choice(list(range(11))), "-Xptxas=-O": choice([1, 2, 3]), '
    '"-Xptxas=--def-load-cache=": choice(["ca", "cg", "cv", "cs"])}'
)
SOFTMAX = 'signature={"out": "*fp32:16", "x": "*fp32:16", "row_stride": "i32:16", "columns": "i32"}'
KNOBS = '{f"-f{i}" + "x" * (i % 7): literal("", knockout_prob=0.5) for i in range(40)}'


@dataclass(frozen=True)
class Case:
    """What is compiled: ``share`` of the budget is enough of it; ``jobs`` where they are not those asked for."""

    source: Path | None
    marker: str
    share: float = 1.0
    jobs: int | None = None


CASES = {
    "wire.c by gcc": Case(KERNELS / "wire.c", 'Cc("wire.c", flags="-O2 -march=x86-64-v3"), space="options"'),
    "matmul.cu by nvcc": Case(
        KERNELS / "cuda" / "matmul.cu", 'Nvcc("matmul.cu", arch="sm_90a", output="cubin"), space="options"', share=0.3
    ),
    "reduction.cu by nvcc, options of ptxas": Case(
        KERNELS / "cuda" / "reduction.cu",
        f'Nvcc("reduction.cu", arch="sm_90a", output="cubin"), space={OF_PTXAS}',
        share=0.3,
    ),
    "softmax by Triton": Case(
        KERNELS / "triton_kernels" / "kernels.py",
        f'Triton("kernels.py::softmax", {SOFTMAX}, constexprs={{"BLOCK": 2048}}, arch="sm_90"), space="options"',
        share=0.3,
    ),
    **{
        f"a compiler that sleeps {sleep_s} s": Case(
            None,
            f'Command("./sleeper {{out}} {sleep_s} {{options}}", sources="sleeper.c", output="file"), space={KNOBS}',
            share=4,
            jobs=16,
        )
        for sleep_s in SLEEPS_S
    },
}
# Every process that builds a candidate is recorded; the files that it finds are still there when the search has ended.
CONFTEST = """
import json, os, re, subprocess, sys, threading
from pathlib import Path

import throughput
from pytest_compileiq.search.loop import Search
from pytest_compileiq.system.forked import ForkedModule
from pytest_compileiq.toolchains.steps import Links
from pytest_compileiq.toolchains.nvidia.front_end import FrontEnds

started, thread = [], threading.local()
start, advance = subprocess.Popen.__init__, Search.advance
fork, build, link = ForkedModule.run, FrontEnds.build, Links.link
HOME = re.compile(r"/[^ =,@]*/compileiq-[^/]+/[0-9a-f]{16}/[0-9a-f]{32}(?=/)")

def noted(self, argv, *arguments, **named):
    if not hasattr(thread, "is_noted"):
        started.append((argv, named.get("cwd"), named.get("env")))
    start(self, argv, *arguments, **named)

def together(self, compilation):
    env = {**os.environ, "LC_ALL": "C", "TMPDIR": str(compilation.folder)}
    started.append((compilation.command(compilation.folder), compilation.commands.rootdir, env))
    thread.is_noted = True
    try:
        return build(self, compilation)
    finally:
        del thread.is_noted

def linked(self, objects, output, run):
    ran = []
    link(self, objects, output, lambda: ran.append(run()))
    if not ran:  # the command that linked the first of them, with this folder in place of that one's
        argv, cwd, env = next(each for each in list(started) if str(each[0][-1]).endswith(f"/{output.name}"))
        first = str(Path(argv[-1]).parent)
        env = {name: value.replace(first, str(output.parent)) for name, value in env.items()}
        started.append(([str(word).replace(first, str(output.parent)) for word in argv], cwd, env))

def forked(self, arguments, **named):
    command = [sys.executable, "-P", "-m", "pytest_compileiq.toolchains.triton.host", *arguments]
    started.append((command, named["cwd"], named["env"]))
    return fork(self, arguments, **named)

def timed(self, *arguments):
    spent = throughput.Spent.now()
    advance(self, *arguments)
    spent, commands = throughput.Spent.now() - spent, []
    for argv, cwd, env in started:
        words = list(map(str, argv)) if isinstance(argv, list) else []
        if home := next((match[0] for word in words if (match := HOME.search(word))), None):
            files = {file.name: file.read_text() for file in Path(home).glob("*") if file.suffix in (".rsp", ".json")}
            place = {"cwd": str(cwd or "."), "env": dict(env or os.environ), "home": home}
            commands.append({"argv": words, "files": files, **place})
    Path("recorded.json").write_text(json.dumps({"spent": vars(spent), "commands": commands}))

subprocess.Popen.__init__, Search.advance = noted, timed
ForkedModule.run, FrontEnds.build, Links.link = forked, together, linked
"""


@dataclass(frozen=True)
class Spent:
    """Wall time; processor time of this process, and of it with its children, in seconds."""

    wall_s: float
    own_s: float
    cpu_s: float

    @classmethod
    def now(cls) -> "Spent":
        used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        own_s, ended_s = (of.ru_utime + of.ru_stime for of in used)
        return cls(time.perf_counter(), own_s, own_s + ended_s + living_children_s())

    def __sub__(self, before: "Spent") -> "Spent":
        return Spent(self.wall_s - before.wall_s, self.own_s - before.own_s, self.cpu_s - before.cpu_s)


def living_children_s() -> float:
    """Processor time of the children that no one has waited for yet, a search's workers, and of what these ran."""
    ticks = 0
    for children in Path("/proc/self/task").glob("*/children"):
        for child in children.read_text().split():
            fields = Path("/proc", child, "stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="a part of the name of what is compiled")
    asked = parser.parse_args()
    print(describe())
    needed = {"nvcc": lambda: any(installed("nvcc")), "Triton": lambda: find_spec("triton") is not None}
    for name, case in CASES.items():
        if asked.only not in name:
            continue
        if lacking := next((tool for tool, has in needed.items() if tool in name and not has()), None):
            print(f"{name}: left out, there is no {lacking}")
            continue
        budget, jobs = round(asked.budget * case.share), case.jobs or asked.jobs
        rounds = [one_round(case, budget, jobs, seed) for seed in range(asked.rounds)]
        wall, cpu = (
            [getattr(bare, field) / getattr(search, field) for search, bare in rounds] for field in ("wall_s", "cpu_s")
        )
        rate = statistics.median(budget / search.wall_s for search, _ in rounds)
        own_ms = statistics.median(search.own_s / budget for search, _ in rounds) * 1e3
        print(
            f"{name}, {jobs} jobs: {statistics.median(wall):.2f} of the bare loop's speed, by processor time "
            f"{statistics.median(cpu):.3f}; {rate:.0f} evaluations a second, {own_ms:.1f} ms of the main process each\n"
        )


def one_round(case: Case, budget: int, jobs: int, seed: int) -> tuple[Spent, Spent]:
    """What the search spent, and the bare loop over its commands."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        if case.source is not None:
            shutil.copy(case.source, home)
        files = {"pytest.ini": "", "test_k.py": TEST % case.marker, "conftest.py": CONFTEST, "sleeper.c": SLEEPER}
        for file, content in files.items():
            (home / file).write_text(content)
        subprocess.run(["gcc", "-O1", "sleeper.c", "-o", "sleeper"], cwd=home, check=True)
        command = [sys.executable, "-m", "pytest", "-q", "--tune", f"--tune-budget={budget}", f"--tune-seed={seed}"]
        path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [*command, f"--tune-jobs={jobs}"], cwd=home, env={**os.environ, "PYTHONPATH": path},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        recorded = json.loads((home / "recorded.json").read_text())
        search, bare = Spent(**recorded["spent"]), bare_loop(recorded["commands"], jobs, home / "bare")
        print(
            f"  search {search.wall_s:.2f} s, bare loop {bare.wall_s:.2f} s, {bare.wall_s / search.wall_s:.2f}; "
            f"by processor time {search.cpu_s:.2f} s, {bare.cpu_s:.2f} s, {bare.cpu_s / search.cpu_s:.3f} "
            f"(load {os.getloadavg()[0]:.1f})",
            flush=True,
        )
        return search, bare


def bare_loop(commands: list[Mapping], jobs: int, scratch: Path) -> Spent:
    """Run the candidates' commands again: one candidate's in order, candidates in parallel."""
    candidates: dict[str, list[Mapping]] = {}
    for command in commands:
        candidates.setdefault(command["home"], []).append(command)

    def build(home: str) -> None:
        here = scratch / Path(home).name
        here.mkdir(parents=True)
        for command in candidates[home]:
            for file, content in command["files"].items():
                (here / file).write_text(content.replace(home, str(here)))
            argv = [argument.replace(home, str(here)) for argument in command["argv"]]
            env = {name: value.replace(home, str(here)) for name, value in command["env"].items()}
            subprocess.run(argv, cwd=command["cwd"], env=env, capture_output=True, check=False)

    start = Spent.now()
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(build, candidates))
    return Spent.now() - start


if __name__ == "__main__":
    main()
