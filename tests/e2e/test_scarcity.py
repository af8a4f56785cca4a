"""A machine that runs out of something, and a run that is killed: one sentence, a right verdict, nothing left behind."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.toolchains.steps import Commands

pytestmark = pytest.mark.slow

FEW_FILES = """
import os, resource

def pytest_collection_finish(session):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + {more}, most))
"""
# What stands in for a full disk: a file system of its own, as large as the parameter says.
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c"]


def can_mount() -> bool:
    return shutil.which("unshare") is not None and not subprocess.run(
        [*NAMESPACE, "mount -t tmpfs tmpfs /mnt"], capture_output=True, check=False
    ).returncode  # fmt: skip


@pytest.mark.parametrize("more", [2, 5, 8, 10, 12, 14])
@pytest.mark.parametrize("arguments", [(), ("--tune", "--tune-budget=3", "--tune-fresh")], ids=["replay", "tune"])
def test_too_few_file_descriptors_are_a_sentence(tuned, more, arguments):
    (tuned.root / "conftest.py").write_text(FEW_FILES.format(more=more))
    output = tuned.pytest(*arguments, "-pno:faulthandler", code=1)
    assert "raise the limit, ulimit -n" in output and "INTERNALERROR" not in output
    assert "STALE" not in output and "REFUTED" not in output


@pytest.mark.skipif(not can_mount(), reason="no file system can be mounted in a namespace here")
@pytest.mark.parametrize("kib", [4, pytest.param(40, marks=pytest.mark.slow), 64])
@pytest.mark.parametrize("arguments", ["", "--tune --tune-budget=3 --tune-fresh"], ids=["replay", "tune"])
def test_a_full_temporary_directory_is_a_sentence_and_no_verdict_on_the_controls(tuned, kib, arguments, tmp_path):
    (tmp_path / "small").mkdir()
    python = shlex.quote(sys.executable)
    inside = f"mount -t tmpfs -o size={kib}k tmpfs {tmp_path}/small && TMPDIR={tmp_path}/small exec {python} -m pytest"
    done = subprocess.run(
        [*NAMESPACE, f"{inside} -p no:cacheprovider {arguments}"], cwd=tuned.root, capture_output=True, text=True, check=False
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "name another directory in TMPDIR" in said, said
    assert not any(word in said for word in ("Traceback", "INTERNALERROR", "STALE", "REFUTED", "does not build")), said


@pytest.mark.parametrize("arguments", ["", "--tune --tune-budget=3 --tune-fresh"], ids=["replay", "tune"])
def test_file_size_limit_is_a_sentence_with_its_remedy(tuned, arguments):
    inside = f"ulimit -f 1 && exec {shlex.quote(sys.executable)} -m pytest -p no:cacheprovider {arguments}"
    done = subprocess.run(["bash", "-c", inside], cwd=tuned.root, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "ulimit -f unlimited" in said, said
    assert not any(word in said for word in ("Traceback", "WRONG", "STALE", "free some", "does not build")), said


@pytest.mark.skipif(not can_mount(), reason="no file system can be mounted in a namespace here")
def test_read_only_tree_is_a_sentence_with_its_remedy(tuned):
    there = "mount --bind . /mnt && mount -o remount,ro,bind /mnt && cd /mnt"
    tune = f"{shlex.quote(sys.executable)} -m pytest -p no:cacheprovider --tune --tune-budget=3"
    done = subprocess.run(
        [*NAMESPACE, f"{there} && {tune}"], cwd=tuned.root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "Read-only file system" in done.stdout and "mount it writable" in done.stdout
    assert "must remove it" not in done.stdout and "Traceback" not in done.stdout


def test_a_compiler_without_space_says_nothing_about_what_it_compiles(tmp_path):
    commands = Commands("cc", tmp_path, tmp_path, 60, lambda output: output)
    with pytest.raises(EnvironmentFault, match=r"cc has no space left for k\.c .*free some"):
        commands.run(["sh", "-c", "echo 'ld: final link failed: No space left on device' >&2; exit 1"], "k.c")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
@pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.2])
def test_a_killed_replay_leaves_no_directory(tuned, tmp_path, delay_s):
    home = tmp_path / "tmp"
    home.mkdir()
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"], cwd=tuned.root, env={**os.environ, "TMPDIR": str(home)},
        stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    _wait_until(lambda: list(home.glob("compileiq-*")) or run.poll() is not None)
    time.sleep(delay_s)  # another moment of the run, in which it is killed
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert _wait_until(lambda: not list(home.glob("compileiq-*")))


def _wait_until(condition):
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        if condition():
            return True
        time.sleep(0.001)
    return False
