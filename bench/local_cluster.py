"""A Ray cluster of several nodes on this machine, as benches need it."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t" * 32, "RAY_USAGE_STATS_ENABLED": "0"}
_CLUSTER = """\
import json, sys
from ray.cluster_utils import Cluster

first, *others = json.loads(sys.argv[1])
cluster = Cluster(initialize_head=True, head_node_args={**first, "include_dashboard": False})
for node in others:
    cluster.add_node(**node)
print(cluster.address, flush=True)
input()
cluster.shutdown()
"""


@contextmanager
def local_cluster(nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The address of a cluster of ``nodes``, each as ``ray.cluster_utils`` takes it; who connects needs ``TOKEN``."""
    described = json.dumps([{"num_cpus": 1, "object_store_memory": 100 * 2**20, **node} for node in nodes])
    with tempfile.TemporaryDirectory(prefix="", dir="/tmp") as home:  # Ray keeps sockets there, of limited length
        cluster = subprocess.Popen(
            [sys.executable, "-c", _CLUSTER, described], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env={**os.environ, **TOKEN, "TMPDIR": home}, text=True,
        )  # fmt: skip
        assert cluster.stdout is not None
        try:
            yield cluster.stdout.readline().strip()
        finally:
            cluster.communicate("\n", timeout=60)
