"""Programs that are forked from a real server, and what becomes of them when they, it or this process are killed."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_compileiq.system.forked import ForkedModule
from pytest_compileiq.system.process import Finished, Guard
from pytest_compileiq.system.watchdog import carriers
from tests.waiting import PATIENCE_S, wait_until

linux_only = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")

ROOT = Path(__file__).parents[3]
SERVED = """
import os, signal, subprocess, sys, threading, time

seen = []

def preload():
    with open("preloaded", "a") as noted:
        noted.write(f"{os.getpid()} ")
    exec(os.environ.get("PRELOADS", ""))

def main():
    return eval(sys.argv[1]) or 0 if len(sys.argv) == 2 else exec(sys.argv[2]) or 0

if __name__ == "__main__":
    sys.exit(main())
"""
Runs = Callable[..., Finished]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Runs an expression in a program of its own, whose value is its exit code; with ``block``, statements."""
    (tmp_path / "served.py").write_text(SERVED)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    forked = ForkedModule("served")

    def run(expression: str = "", block: str = "", timeout_s: float = PATIENCE_S, **environment: str) -> Finished:
        arguments = [expression] if expression else ["-", block]
        return forked.run(arguments, timeout_s=timeout_s, cwd=tmp_path, env={**os.environ, **environment})

    return run


def preloaded(folder: Path) -> list[int]:
    return [int(pid) for pid in (folder / "preloaded").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_program_gives_its_status_and_both_streams_in_order(runs: Runs) -> None:
    block = "print('out', flush=True); print('err', file=sys.stderr); print('again'); sys.exit(3)"
    finished = runs(block=block)
    assert (finished.returncode, finished.output, finished.timed_out) == (3, "out\nerr\nagain\n", False)
    assert 0 < finished.seconds < PATIENCE_S


def test_what_programs_begin_with_is_done_once_and_none_sees_what_another_did(runs: Runs, tmp_path: Path) -> None:
    said = [runs("seen.append(1) or print(len(seen), os.getpid(), os.getppid())").output.split() for _ in range(3)]
    assert [length for length, _, _ in said] == ["1"] * 3
    assert len({pid for _, pid, _ in said}) == 3
    assert {int(parent) for _, _, parent in said} == set(preloaded(tmp_path)) and len(preloaded(tmp_path)) == 1


def test_each_has_its_own_environment_and_nothing_to_read(runs: Runs) -> None:
    assert [runs("print(os.environ.get('WORD'))", **given).output for given in ({"WORD": "a"}, {})] == ["a\n", "None\n"]
    odd = os.fsdecode(b"/caf\xe9 \xff")
    assert runs("print(os.environb[b'WORD'])", WORD=odd).output == f"{os.fsencode(odd)}\n"
    assert runs("print(os.getcwd(), [sys.stdin.read()], sys.argv[0] != '')").output.endswith("[''] True\n")


def test_what_the_module_is_loaded_with_is_what_its_programs_have(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORD", "the user's")
    monkeypatch.setenv("PRELOADS", "seen.append(os.environ['WORD'])")
    forked = ForkedModule("served", {"WORD": "ours"})
    finished = forked.run(["print(seen, os.environ['WORD'])"], timeout_s=PATIENCE_S, cwd=tmp_path, env=os.environ)
    assert finished.output == "['ours'] ours\n"


def test_another_directory_or_way_to_start_is_another_server(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs("0")
    monkeypatch.setenv("ANOTHER", "1")
    runs("0")
    runs("0", PYTHONHASHSEED="7")
    first, second, third = preloaded(tmp_path)
    assert wait_until(lambda: not is_alive(first) and not is_alive(second)) and is_alive(third)


def test_a_signal_is_a_negative_status(runs: Runs) -> None:
    assert runs("os.kill(os.getpid(), signal.SIGSEGV)").returncode == -signal.SIGSEGV


def test_a_hung_program_is_killed_with_its_whole_group(runs: Runs) -> None:
    runs("0")
    finished = runs("print(subprocess.Popen(['sleep', '600']).pid, flush=True) or time.sleep(600)", timeout_s=1.0)
    assert (finished.returncode, finished.timed_out) == (-signal.SIGKILL, True)
    assert wait_until(lambda: not is_alive(int(finished.output)))


def test_what_stays_in_the_group_of_a_program_ends_with_it(runs: Runs) -> None:
    finished = runs("print(subprocess.Popen(['sleep', '600']).pid)")
    assert finished.returncode == 0 and wait_until(lambda: not is_alive(int(finished.output)))


@linux_only
def test_a_daemon_that_left_the_group_ends_too_and_holds_nobody(runs: Runs) -> None:
    block = """
if os.fork():
    os.wait()
else:
    os.setsid()
    if daemon := os.fork():
        print(daemon, flush=True)
    else:
        time.sleep(600)
    os._exit(0)
"""
    finished = runs(block=block)
    assert finished.returncode == 0 and wait_until(lambda: not is_alive(int(finished.output)))


def test_several_run_side_by_side(runs: Runs, tmp_path: Path) -> None:
    # Each waits until all are there.
    block = "n = sys.argv[0]; open(f'here-{os.getpid()}', 'w'); import glob\nwhile len(glob.glob('here-*')) < 4: time.sleep(0.01)"
    with ThreadPoolExecutor(4) as threads:
        ended = list(threads.map(lambda _: runs(block=block).returncode, range(4)))
    assert ended == [0] * 4 and len(preloaded(tmp_path)) == 1


def test_a_program_that_kills_the_server_begins_from_nothing_and_the_next_has_a_new_one(
    runs: Runs, tmp_path: Path
) -> None:
    kills = f"print(os.getppid() == {os.getpid()}) if os.getppid() == {os.getpid()} else os.kill(os.getppid(), 9)"
    assert runs(kills).output == "True\n"
    assert runs("print(os.getppid())").output.strip() == str(preloaded(tmp_path)[1])


@pytest.mark.parametrize("preloads", ["1 / 0", "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"])
def test_what_cannot_be_done_once_is_done_by_each(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preloads: str
) -> None:
    monkeypatch.setenv("PRELOADS", preloads)
    assert [runs("print(os.getppid())").output for _ in range(2)] == [f"{os.getpid()}\n"] * 2
    assert len(preloaded(tmp_path)) == 1


def test_where_nothing_more_can_be_opened_nothing_is_lost(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket, "socketpair", exhausted)
    assert runs("print(os.getppid())").output == f"{os.getpid()}\n"


@linux_only
def test_a_sweep_spares_a_program_and_what_it_starts(runs: Runs, tmp_path: Path) -> None:
    with Guard(tmp_path / "run") as guard, ThreadPoolExecutor(1) as pool:
        build = pool.submit(runs, "subprocess.run(['sleep', '0.5']).returncode")
        assert wait_until(lambda: len(carriers(guard.token)) == 1)
        assert guard.sweep() == []
        assert build.result().returncode == 0
    assert runs("0").returncode == 0  # the server has outlived the guard


PARENT = """
import json, os, sys
from pathlib import Path
from pytest_compileiq.system.forked import ForkedModule
forked = ForkedModule("served")
print(json.dumps(forked.run(["print(os.getppid())"], timeout_s=60, cwd=Path(), env=os.environ).output), flush=True)
if len(sys.argv) > 1:
    forked.run(["open('pid', 'w').write(str(os.getpid())) and time.sleep(600)"], timeout_s=600, cwd=Path(), env=os.environ)
"""


def test_nothing_is_left_of_a_process_that_ends(runs: Runs, tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", PARENT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert not is_alive(int(json.loads(ended.stdout)))


def test_nothing_is_left_of_a_process_that_is_killed(runs: Runs, tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, "and waits"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    server = int(json.loads(parent.stdout.readline()))
    assert wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
    parent.kill()
    parent.communicate()
    assert wait_until(lambda: not is_alive(server) and not is_alive(int((tmp_path / "pid").read_text())))
