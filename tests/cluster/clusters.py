"""Clusters of Ray that a test begins, hurts, and ends."""

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_compileiq.system.watchdog import of_each_process

_BEGUN_BY = "COMPILEIQ_TEST_CLUSTER"
_OBJECT_STORE_BYTES = 80 * 2**20
_BEGIN = """\
import json, sys
from ray.cluster_utils import Cluster

settings, *others = json.loads(sys.argv[1])
cluster = Cluster(initialize_head=True, head_node_args={"include_dashboard": False, **settings})
nodes = [cluster.head_node, *(cluster.add_node(**other) for other in others)]
pids = [{kind: all_of[0].process.pid for kind, all_of in node.all_processes.items()} for node in nodes]
print(json.dumps([cluster.address, pids]), flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class RealCluster:
    """Nodes of Ray on this machine, which know nothing of this package.

    Attributes:
        address: what ``--tune-on`` takes.
        environment: what a driver needs besides, its token.
        raylets: the process that is a node, of each; the head is the first.
        head: the head's own process (GCS).
    """

    address: str
    environment: Mapping[str, str]
    raylets: tuple[int, ...]
    head: int

    def lose_node(self, raylet: int) -> None:
        """SIGKILL a node with all that it has started, as a machine that goes down."""
        below = [pid for pid, parent in parents().items() if parent == raylet]
        for pid in (raylet, *below):
            send(pid, signal.SIGKILL)


@contextlib.contextmanager
def real_cluster(nodes: int, *settings: Mapping[str, object], **environment: str) -> Iterator[RealCluster]:
    """A cluster of ``nodes``, one processor each; ``settings`` are of Ray's own names, a mapping for each node."""
    mark, folder = secrets.token_hex(8), tempfile.mkdtemp(prefix="c", dir="/tmp")  # short, since sockets are in it
    own = {
        "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"
    }  # fmt: skip
    given = [*settings, *[{}] * (nodes - len(settings))]
    told = [{"num_cpus": 1, "object_store_memory": _OBJECT_STORE_BYTES, **each} for each in given]
    process = subprocess.Popen(
        [sys.executable, "-c", _BEGIN, json.dumps(told)], env={**os.environ, **own, "RAY_TMPDIR": folder, _BEGUN_BY: mark, **environment},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address, pids = json.loads(process.stdout.readline())
        yield RealCluster(address, own, tuple(each["raylet"] for each in pids), pids[0]["gcs_server"])
    finally:
        while carriers := [
            pid for pid, environ in of_each_process("environ") if f"{_BEGUN_BY}={mark}".encode() in environ
        ]:
            for pid in carriers:
                send(pid, signal.SIGKILL)
            process.poll()
        process.communicate()
        shutil.rmtree(folder, ignore_errors=True)


def parents() -> dict[int, int]:
    """Process → its parent."""
    return {pid: int(stat.rpartition(b")")[2].split()[1]) for pid, stat in of_each_process("stat")}


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
