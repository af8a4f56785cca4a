"""Clusters of Ray that a test begins, hurts, and ends, and searches on them."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_compileiq.system.watchdog import of_each_process

_BEGUN_BY = "COMPILEIQ_TEST_CLUSTER"
_OBJECT_STORE_BYTES = 80 * 2**20  # about the least that Ray takes
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "bash", "-c")
_NODES = """\
import json, sys
from ray.cluster_utils import Cluster

def tell(node):
    pids = {kind: started[0].process.pid for kind, started in node.all_processes.items()}
    print(json.dumps([pids["raylet"], pids.get("gcs_server"), cluster.address]), flush=True)

cluster = Cluster(initialize_head=True, head_node_args={"include_dashboard": False, **json.loads(sys.stdin.readline())})
tell(cluster.head_node)
for line in sys.stdin:
    tell(cluster.add_node(**json.loads(line)))
"""


@dataclass
class RealCluster:
    """Nodes of Ray on this machine, which know nothing of this package.

    Attributes:
        environment: what a driver needs, such as its token; one that has it ends with the cluster at the latest.
        address: what ``--tune-on`` takes.
        head: the head's own process (GCS).
        raylets: the process of each node; the head's is the first.
    """

    process: subprocess.Popen[str]
    environment: Mapping[str, str]
    address: str = ""
    head: int = 0
    raylets: list[int] = field(default_factory=list)
    others: list[subprocess.Popen[str]] = field(default_factory=list)

    def add_node(self, **settings: Any) -> int:
        """Begin a node with one processor, and ``settings`` by Ray's own names; returns its raylet."""
        assert self.process.stdin is not None and self.process.stdout is not None
        told = {"num_cpus": 1, "object_store_memory": _OBJECT_STORE_BYTES, **settings}
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()
        raylet, head, self.address = json.loads(self.process.stdout.readline())
        self.head = head or self.head
        self.raylets.append(raylet)
        return int(raylet)

    def add_hidden_node(self, commands: str) -> None:
        """Begin a node that sees other files than the others, by ``commands`` in namespaces of its own."""
        begin = f"exec {sys.executable} -m ray.scripts.scripts start --block --address={self.address} --num-cpus=1"
        node = subprocess.Popen(
            [*NAMESPACE, f"{commands} && {begin} --object-store-memory={_OBJECT_STORE_BYTES}"],
            env={**os.environ, **self.environment, "RAY_USAGE_STATS_ENABLED": "0"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        assert node.stdout is not None
        while "Ray runtime started" not in (line := node.stdout.readline()):
            assert line, "ray start has ended"
        self.others.append(node)

    def lose_node(self, raylet: int) -> None:
        """SIGKILL a node with all that it has started, as a machine that goes down."""
        for pid in (raylet, *(pid for pid, parent in parents().items() if parent == raylet)):
            send(pid, signal.SIGKILL)
        self.raylets.remove(raylet)


@contextlib.contextmanager
def real_cluster(nodes: int, **environment: str) -> Iterator[RealCluster]:
    """A cluster of ``nodes`` that takes orders only with a token; ``environment`` is of the nodes."""
    mark, folder = secrets.token_hex(8), tempfile.mkdtemp(prefix="c", dir="/tmp")  # short, since sockets are in it
    driver = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), _BEGUN_BY: mark}
    own = {**driver, "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": folder}
    process = subprocess.Popen(
        [sys.executable, "-c", _NODES], env={**os.environ, **own, **environment},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    cluster = RealCluster(process, driver)
    try:
        for _ in range(nodes):
            cluster.add_node()
        yield cluster
    finally:
        while left := with_variable(_BEGUN_BY, mark):
            for pid in left:
                send(pid, signal.SIGKILL)
            process.poll()
        for each in (process, *cluster.others):
            each.communicate()
        shutil.rmtree(folder, ignore_errors=True)


def with_variable(name: str, value: str) -> list[int]:
    """Processes that began with an environment variable, whoever has adopted them since."""
    wanted = f"{name}={value}".encode()
    return [pid for pid, environ in of_each_process("environ") if wanted in environ.split(b"\0")]


def parents() -> dict[int, int]:
    """Process → its parent."""
    return {pid: int(stat.rpartition(b")")[2].split()[1]) for pid, stat in of_each_process("stat")}


def actors_of(raylets: Sequence[int]) -> list[int]:
    """The processes of actors that own a device, on the nodes of ``raylets``."""
    parent = parents()
    titled = [pid for pid, title in of_each_process("cmdline") if title.startswith(b"ray::Device")]
    return [pid for pid in titled if parent.get(pid) in raylets]


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
