"""Records what blocks of a real kernel give: many blocks of each of some random candidates, in turn.

Written as JSON, for ``racing.py`` to race on: for each candidate its blocks, each as the samples of its slots in order,
with the arm of each slot; and how long a check of the body and a block take.

    python bench/racing_record.py kernels.json [--candidates 24] [--blocks 12] [--only stencil]
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import describe

BENCH = Path(__file__).parent
# Folder of a kernel → its test. The searches of all are by the random engine, and are thrown away.
TESTS = {
    "pair_potential": (BENCH.parent / "tests" / "kernels", "test_kernels.py::test_pair_potential"),
    "stencil": (BENCH.parent / "tests" / "kernels", "test_kernels.py::test_stencil"),
    "nearest_centroid": (BENCH / "kernels", "test_nearest_centroid.py::test_nearest_centroid"),
    "rational_softmax": (BENCH / "kernels_later", "test_rational_softmax.py::test_rational_softmax"),
}
CONFTEST = """
import json, os, time
from pathlib import Path
from random import Random

from pytest_compileiq.search.loop import Search
from pytest_compileiq.timing.sampler import plan_block
from pytest_compileiq.workers.messages import CheckTask
from pytest_compileiq.workers.pool import EvaluationFailed

advance = Search.advance

def recorded(self, *arguments):
    advance(self, *arguments)
    scorer, random, blocks, spent = self.brief.scorer, Random(7), int(os.environ["BLOCKS"]), {"check": [], "block": []}
    (workload,) = scorer.benchmark.timed_workloads
    candidates = [scored.controls for scored in self.scored.values()]
    taken = [[] for _ in candidates]
    for _ in range(blocks):
        for place in random.sample(range(len(candidates)), len(candidates)):
            begun = time.perf_counter()
            scorer.pool.ask(0, scorer.benchmark, CheckTask(workload.name, candidates[place]))
            checked = time.perf_counter()
            arms = {"baseline": None, "tuned": candidates[place]}
            plan = plan_block(random, quads=4, samples=3)
            rows = scorer.pool.block(0, scorer.benchmark, arms, workload, plan).rows
            spent["check"].append(checked - begun)
            spent["block"].append(time.perf_counter() - checked)
            slots = {}
            for row in rows:
                slots.setdefault((row.quad, row.slot), [row.arm, []])[1].append(row.value)
            taken[place].append(list(slots.values()))
    Path("taken.json").write_text(json.dumps({"candidates": taken, "spent_s": spent}))
    os._exit(0)

Search.advance = recorded
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--candidates", type=int, default=24)
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    print(describe())
    kernels = json.loads(asked.file.read_text()) if asked.file.exists() else {}
    for name in filter(lambda name: asked.only in name, TESTS):
        kernels[name] = record(*TESTS[name], asked.candidates, asked.blocks)
        asked.file.write_text(json.dumps(kernels))
        print(f"{name}: {len(kernels[name]['candidates'])} candidates", flush=True)


def record(kernel: Path, nodeid: str, candidates: int, blocks: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        shutil.copytree(kernel, project, ignore=shutil.ignore_patterns("__pycache__", "cuda", "triton_kernels"))
        (project / "pytest.ini").touch()
        (project / "conftest.py").write_text(CONFTEST)
        command = [sys.executable, "-m", "pytest", "-q", "--tune", "--tune-engine=random", nodeid]
        subprocess.run(
            [*command, f"--tune-budget={candidates}"], cwd=project, env={**os.environ, "BLOCKS": str(blocks)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return json.loads((project / "taken.json").read_text())


if __name__ == "__main__":
    main()
