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
def head(environment: Mapping[str, str] | None = None, hidden: Sequence[Path] = ()) -> Iterator[str]:
    """The address of a cluster of one node, which does not see what the driver has in the folders ``hidden``."""
    sockets = tempfile.mkdtemp(prefix="", dir="/tmp")  # which the driver has to see
    argv = _hiding(hidden, [sys.executable, "-c", HEAD])
    process = subprocess.Popen(
        argv, env={**os.environ, "RAY_TMPDIR": sockets, **(environment or {})},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process.stdout.readline().decode().strip()
    finally:
        process.communicate(b"\n", timeout=60)
        shutil.rmtree(sockets, ignore_errors=True)


@contextmanager
def joined(address: str, environment: Mapping[str, str], hidden: Sequence[Path]) -> Iterator[subprocess.Popen[bytes]]:
    """Another node of the cluster at ``address``, of two processors, as ``head`` has them; the session that it is."""
    start = ["-m", "ray.scripts.scripts", "start", f"--address={address}", "--block", "--num-cpus=2"]
    process = subprocess.Popen(
        _hiding(hidden, [sys.executable, *start]), env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        said = []
        while process.poll() is None and not any("--block" in line for line in said):
            said.append(process.stdout.readline().decode())
        assert process.poll() is None, "".join(said)
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _hiding(hidden: Sequence[Path], argv: Sequence[str]) -> Sequence[str]:
    """``argv`` as a process that finds the folders ``hidden`` empty."""
    if not hidden:
        return argv
    mounts = [f"mount -t tmpfs none {shlex.quote(str(folder))}" for folder in hidden]
    return ["unshare", "--mount", "sh", "-c", " && ".join([*mounts, f"exec {shlex.join(argv)}"])]
