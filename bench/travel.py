"""How long a project takes to a node that does not see it, and how many more builds such nodes make.

    python bench/travel.py [--mib 10 100] [--nodes 0 1 2] [--builds 48] [--sleep 1.0]

The nodes are of a Ray cluster on this machine, and are told that they see none of its files: what they are given is
packed, sent, checked and unpacked as for a machine of its own, but for the network. For the builds the compiler sleeps,
so that this machine's processor is no limit; all else is real: Ray, the workers, gcc.
"""

import argparse
import itertools
import os
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

from local_cluster import TOKEN, local_cluster
from machine import describe
from pytest_compileiq.benchmark.builds import BuildQueue, Builds
from pytest_compileiq.model import ControlsFile
from pytest_compileiq.system.process import Guard
from pytest_compileiq.system.processor_turn import ProcessorTurn
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.workers.build_nodes import BuildNode, BuildNodes
from pytest_compileiq.workers.luggage import Luggage
from pytest_compileiq.workers.messages import Start
from pytest_compileiq.workers.ray_cluster import connect, leave, living_nodes, name_of
from pytest_compileiq.workers.remote import RemoteDevice

FILES = 20
SLOTS = 2  # builds at once: here, and on each node
NODEID = "test_k.py::test_k"
GCC = """\
#!/bin/sh
case "$*" in *-shared*) sleep {sleep};; esac
exec gcc "$@"
"""
TEST = """\
import pytest
from pytest_compileiq import Cc, minimize

@pytest.mark.tune(Cc("wire.c", flags="-O2", compiler="./slow-gcc"), objectives=[minimize("code_bytes")])
def test_k(acf):
    acf.build()
"""
KERNEL = Path(__file__).parents[1] / "tests" / "kernels" / "wire.c"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--nodes", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--builds", type=int, default=48)
    parser.add_argument("--sleep", type=float, default=1.0, help="seconds of one build")
    asked = parser.parse_args()
    print(describe())
    for name, value in TOKEN.items():
        os.environ[name] = value
    with (
        local_cluster([{"num_cpus": SLOTS}] * max(1, *asked.nodes)) as address,
        tempfile.TemporaryDirectory() as home,
        Guard(Path(home) / "run") as guard,
    ):
        connect(address, guard, print)
        for mib in asked.mib:
            bring(mib, Path(home) / f"project-{mib}", guard)
        rates = {nodes: builds_a_second(nodes, asked, Path(home) / f"built-{nodes}", guard) for nodes in asked.nodes}
        for fewer, more in itertools.pairwise(rates):
            print(f"{fewer} → {more} nodes beside this machine: {rates[more] / rates[fewer]:.2f} times as many builds")
        leave()


def bring(mib: int, root: Path, guard: Guard) -> None:
    """Bring a project of so many MiB, in a few files, to a node."""
    root.mkdir()
    for number in range(FILES):
        (root / f"data-{number}.bin").write_bytes(os.urandom(mib * 2**20 // FILES))
    folder = Path(tempfile.mkdtemp(dir=guard.folder))
    with patch.object(guard, "folder", folder):
        luggage = Luggage(root, guard, print)
        begun = time.monotonic()
        luggage.project()
        packed = time.monotonic()
        device = afar(1, guard, luggage)[0]
        device.ask("hear")  # its process has begun
        ready = time.monotonic()
        device.settle(luggage)
    print(f"{mib} MiB: read in {packed - begun:.2f} s, there in {time.monotonic() - ready:.2f} s")
    device.stop()


def afar(nodes: int, guard: Guard, luggage: Luggage) -> list[RemoteDevice]:
    """An actor on each of so many nodes, which is told that it sees none of this machine's files."""
    told = str(luggage.root), str(guard.folder), str(guard.folder / "seen-by-nodes")
    return [
        RemoteDevice(node["NodeID"], name_of(node), told, has_gpu=False, shares_files=False)
        for node in living_nodes()[:nodes]
    ]


def builds_a_second(nodes: int, asked: argparse.Namespace, root: Path, guard: Guard) -> float:
    """Builds a second on this machine and so many nodes, once all of them have been looked at."""
    for name, text in {
        "pytest.ini": "", "wire.c": KERNEL.read_text(), "test_k.py": TEST, "slow-gcc": GCC.format(sleep=asked.sleep)
    }.items():  # fmt: skip
        root.mkdir(exist_ok=True)
        (root / name).write_text(text)
    (root / "slow-gcc").chmod(0o755)
    luggage = Luggage(root, guard, print)
    start = Start(".", (NODEID,), {}, (), (None,), dict(os.environ))
    devices = afar(nodes, guard, luggage)
    found = BuildNodes(
        [BuildNode(device, SLOTS, ProcessorTurn(), luggage, print) for device in devices], start, luggage, print
    )
    builder = Cc("wire.c", flags="-O2", compiler="./slow-gcc").resolve(Place(root, root))
    builds = Builds(builder, root / ".builds", 60.0, frozenset(), makers=lambda builds: found.makers(NODEID, builds))
    every = [ControlsFile("options", f"-O3\n-falign-loops={n + 1}\n".encode(), {}) for n in range(asked.builds)]
    queue = BuildQueue(builds, SLOTS)
    warmed = [queue.begin(controls) for controls in every[: SLOTS * (1 + nodes)]]  # starts the workers
    for future in warmed:
        future.result()
    begun = time.monotonic()
    counted = [queue.begin(controls) for controls in every[len(warmed) :]]
    failed = [str(each) for each in (future.result() for future in counted) if isinstance(each, Exception)]
    seconds = time.monotonic() - begun
    queue.close()
    for device in devices:
        device.stop()
    if failed:
        sys.exit(failed[0])
    print(f"{nodes} node(s) beside this machine: {len(counted)} builds in {seconds:.1f} s")
    return len(counted) / seconds


if __name__ == "__main__":
    main()
