"""Clusters for tests: nodes on this machine, some of which do not see what the driver sees."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

SETTINGS = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t" * 32, "RAY_USAGE_STATS_ENABLED": "0"}
HEAD = """\
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
print(cluster.address, flush=True)
input()
cluster.shutdown()
"""


def can_hide() -> bool:
    """Whether this user may start processes that do not see some of this machine's files."""
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return done.returncode == 0


can_hide_files = pytest.mark.skipif(
    sys.platform != "linux" or not can_hide(), reason="no mount namespaces: needs unshare and the right to use it"
)


@contextmanager
def head(environment: Mapping[str, str], hidden: Sequence[Path] = ()) -> Iterator[str]:
    """The address of a cluster of one node, which does not see what the driver has in the folders ``hidden``."""
    mounts = [f"mount -t tmpfs none {shlex.quote(str(folder))}" for folder in hidden]
    inner = " && ".join([*mounts, f"exec {shlex.quote(sys.executable)} -c {shlex.quote(HEAD)}"])
    argv = ["unshare", "--mount", "sh", "-c", inner] if hidden else ["sh", "-c", inner]
    sockets = tempfile.mkdtemp(prefix="", dir="/tmp")  # which the driver has to see
    process = subprocess.Popen(
        argv, env={**os.environ, "RAY_TMPDIR": sockets, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process.stdout.readline().decode().strip()
    finally:
        process.communicate(b"\n", timeout=60)
        shutil.rmtree(sockets, ignore_errors=True)
