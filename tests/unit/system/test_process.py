"""Real processes: programs that hang, flood, fork away and outlive their parent."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.system.process import Guard, run
from pytest_compileiq.system.watchdog import RUN_TOKEN_VARIABLE, carriers, of_each_process
from tests.waiting import PATIENCE_S, wait_until

linux_only = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")

ROOT = Path(__file__).parents[3]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def test_a_program_that_ends_gives_its_status_and_both_streams_in_order() -> None:
    finished = run(["sh", "-c", "echo out; echo err >&2; echo again; exit 3"], timeout_s=PATIENCE_S)
    assert (finished.returncode, finished.output, finished.timed_out) == (3, "out\nerr\nagain\n", False)


def test_a_signal_is_a_negative_status() -> None:
    assert run(["sh", "-c", "kill -SEGV $$"], timeout_s=PATIENCE_S).returncode == -signal.SIGSEGV


def test_run_in_a_process_that_ignores_sigchld_knows_the_status() -> None:
    code = """
import signal, sys
from threading import Thread
from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.system.process import run, run_in_foreground
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
ends = [run(["sh", "-c", "sleep 0.1 & exit 3"], timeout_s=60).returncode]
thread = Thread(target=lambda: ends.append(run(["sh", "-c", "sh -c 'exit 4'; exit $?"], timeout_s=60).returncode))
thread.start()
thread.join()
ends.append(run_in_foreground(["sh", "-c", "exit 5"]))
ignored = next(line for line in open("/proc/self/status") if line.startswith("SigIgn"))
print(ends, bool(int(ignored.split()[1], 16) >> (signal.SIGCHLD - 1) & 1))
import os
signal.signal(signal.SIGCHLD, lambda *_: os.waitpid(-1, 0))
try:
    print(run(["sh", "-c", "exit 6"], timeout_s=60).returncode)
except EnvironmentFault as error:
    print(error)
"""
    shown = run([sys.executable, "-c", code], timeout_s=60).output.splitlines()
    assert shown[0] == "[3, 4, 5] True"
    assert shown[1:] == ["6"] or "how 'sh' ended is unknown" in shown[1]


def test_standard_input_is_empty() -> None:
    assert run(["cat"], timeout_s=PATIENCE_S).returncode == 0


def test_directory_and_environment_are_those_given(tmp_path: Path) -> None:
    finished = run(["/bin/sh", "-c", "pwd; echo $WORD"], timeout_s=PATIENCE_S, cwd=tmp_path, env={"WORD": "kernel"})
    assert finished.output == f"{tmp_path}\nkernel\n"


def test_a_hung_program_is_killed_with_its_whole_group(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    finished = run(["sh", "-c", f"sleep 600 & echo $! > {pid_file}; echo begun; wait"], timeout_s=1.0)
    assert finished.timed_out
    assert finished.returncode == -signal.SIGKILL
    assert finished.output == "begun\n"
    child = int(pid_file.read_text())
    assert wait_until(lambda: not is_alive(child))


def test_a_program_that_closes_its_output_and_hangs_is_killed_too() -> None:
    assert run(["sh", "-c", "exec >&- 2>&-; sleep 600"], timeout_s=0.5).timed_out


def test_a_daemon_that_holds_the_pipe_does_not_hold_the_caller(tmp_path: Path) -> None:
    with Guard(tmp_path / "run"):  # it ends what the process group no longer reaches
        finished = run(["sh", "-c", "setsid sleep 600 & echo done"], timeout_s=PATIENCE_S)
    assert (finished.returncode, finished.output, finished.timed_out) == (0, "done\n", False)


def test_a_background_child_in_the_group_ends_with_its_leader(tmp_path: Path) -> None:
    finished = run(["sh", "-c", "sleep 600 & echo $!"], timeout_s=PATIENCE_S)
    assert wait_until(lambda: not is_alive(int(finished.output)))


def test_a_hundred_megabytes_of_output_cost_no_memory() -> None:
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    finished = run(["sh", "-c", "head -c 100000000 /dev/zero | tr '\\0' 'x'; echo the end"], timeout_s=PATIENCE_S)
    assert finished.output.endswith("the end\n")
    assert len(finished.output) == 64 * 1024
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 20_000


def test_the_tail_is_exactly_the_last_bytes() -> None:
    finished = run(["sh", "-c", "seq 1 100000"], timeout_s=PATIENCE_S, tail_bytes=13)
    assert finished.output == "99999\n100000\n"


def test_undecodable_output_is_replaced_and_never_an_error() -> None:
    assert run(["printf", "a\\377b"], timeout_s=PATIENCE_S).output == "a�b"


def test_a_missing_program_is_an_environment_fault_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="no-such-compiler"):
        run(["no-such-compiler"], timeout_s=PATIENCE_S)
    (tmp_path / "plain").write_text("not a program")
    with pytest.raises(EnvironmentFault, match="plain"):
        run([tmp_path / "plain"], timeout_s=PATIENCE_S)
    (tmp_path / "plain").chmod(0o755)
    with pytest.raises(EnvironmentFault, match=r"plain.*format"):
        run([tmp_path / "plain"], timeout_s=PATIENCE_S)


def test_a_missing_working_directory_is_not_blamed_on_the_program(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="working directory"):
        run(["true"], timeout_s=PATIENCE_S, cwd=tmp_path / "gone")


# The first process waits for the second: with its end everything that has not left its group is killed.
DOUBLE_FORK = "import os, time\nif os.fork():\n os.wait()\nelse:\n os.setsid()\n if os.fork() == 0:\n  time.sleep(600)"


@linux_only
def test_a_guard_finds_and_ends_what_forked_away_and_left_the_session(tmp_path: Path) -> None:
    with Guard(tmp_path) as guard:
        run(python(DOUBLE_FORK), timeout_s=PATIENCE_S)
        assert wait_until(lambda: len(carriers(guard.token)) == 1)
        [stray] = carriers(guard.token)
        assert guard.sweep({os.getsid(stray)}) == []
        assert is_alive(stray)
        assert guard.sweep() == [stray]
        assert not is_alive(stray)
        assert guard.sweep() == []


@linux_only
def test_a_sweep_spares_a_worker_with_what_its_fixtures_started(tmp_path: Path) -> None:
    with Guard(tmp_path) as guard:
        worker = subprocess.Popen(
            ["sh", "-c", "sleep 600 & wait"], env=guard.marked(os.environ), start_new_session=True
        )
        assert wait_until(lambda: len(carriers(guard.token)) == 2)
        assert guard.sweep({worker.pid}) == []
        assert len(guard.sweep()) == 2
        worker.wait()


@linux_only
def test_what_another_thread_runs_is_not_swept(tmp_path: Path) -> None:
    script = "import subprocess, sys; sys.exit(subprocess.run(['sleep', '0.5']).returncode)"
    with Guard(tmp_path) as guard, ThreadPoolExecutor(1) as pool:
        builds = pool.submit(run, python(script), timeout_s=PATIENCE_S)
        assert wait_until(lambda: len(carriers(guard.token)) == 2)
        assert guard.sweep() == []
        assert builds.result().returncode == 0


@linux_only
def test_closing_a_guard_leaves_nothing_running(tmp_path: Path) -> None:
    with Guard(tmp_path) as guard:
        run(python(DOUBLE_FORK), timeout_s=PATIENCE_S)
        assert wait_until(lambda: carriers(guard.token) != [])
    assert carriers(guard.token) == []
    guard.close()


def seen_token(env: dict[str, str] | None = None) -> str:
    shown = run(["/bin/sh", "-c", f"echo ${RUN_TOKEN_VARIABLE}"], timeout_s=PATIENCE_S, env=env)
    return shown.output.strip()


def test_only_what_a_run_starts_carries_its_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(RUN_TOKEN_VARIABLE, raising=False)
    with Guard(tmp_path) as outer:
        with Guard(tmp_path) as inner:
            assert seen_token() == seen_token({"WORD": "kernel"}) == inner.token
        assert seen_token() == outer.token
        assert outer.marked(os.environ) == {**os.environ, RUN_TOKEN_VARIABLE: outer.token}
        assert RUN_TOKEN_VARIABLE not in os.environ
    assert seen_token() == ""


def test_a_worker_hands_the_token_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUN_TOKEN_VARIABLE, "from-the-parent")
    assert seen_token({"WORD": "kernel"}) == "from-the-parent"


@linux_only
def test_a_process_that_ends_while_it_is_looked_at_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    me, mine = os.getpid(), dict(of_each_process("stat"))[os.getpid()]

    def gone(path: Path) -> bytes:  # what the kernel says of a process that ends between two steps of a look-up
        if path.parent.name == str(me):
            return mine
        raise ProcessLookupError(errno.ESRCH, "No such process", str(path))

    monkeypatch.setattr(Path, "read_bytes", gone)
    assert dict(of_each_process("stat")) == {me: mine}


@linux_only
def test_a_guard_touches_only_its_own_processes(tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "600"], env={RUN_TOKEN_VARIABLE: "somebody-else"}, start_new_session=True)
    try:
        with Guard(tmp_path) as guard:
            assert guard.sweep() == []
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


PARENT = f"""
import sys, time
from pathlib import Path
from pytest_compileiq.system.process import Guard, run
guard = Guard(Path(sys.argv[1]))
print(guard.token, flush=True)
run([sys.executable, "-c", {DOUBLE_FORK!r}], timeout_s=60)
run(["sleep", "600"], timeout_s=600)
"""


@linux_only
def test_killing_the_parent_outright_leaves_neither_processes_nor_files(tmp_path: Path) -> None:
    (tmp_path / "run" / "build").mkdir(parents=True)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path / "run"], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert parent.stdout is not None
        token = parent.stdout.readline().strip()
        assert wait_until(lambda: len(carriers(token)) == 2)  # the forked-away one and the sleeper
    finally:
        parent.kill()
        parent.communicate()
    assert wait_until(lambda: carriers(token) == [] and not (tmp_path / "run").exists())


FORKED = f"""
import os, sys, time
from pathlib import Path
from pytest_compileiq.system.process import Guard, run
guard = Guard(Path(sys.argv[1]))
print(guard.token, flush=True)
if os.fork() == 0:  # it holds the pipe to the watchdog
    time.sleep(60)
    os._exit(0)
run([sys.executable, "-c", {DOUBLE_FORK!r}], timeout_s=60)
time.sleep(600)
"""


@linux_only
def test_the_watchdog_is_nobodys_child_and_sees_the_end_though_a_fork_holds_the_pipe(tmp_path: Path) -> None:
    """Ray kills every child of a worker that ends, and its forks may live on."""
    parent = subprocess.Popen(
        [sys.executable, "-c", FORKED, tmp_path / "run"], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    fork = None
    try:
        assert parent.stdout is not None
        token = parent.stdout.readline().strip()
        assert wait_until(lambda: len(carriers(token)) == 1)  # the forked-away one
        children = {
            pid: (Path("/proc") / str(pid) / "cmdline").read_bytes()
            for pid, stat in of_each_process("stat")
            if int(stat.rpartition(b")")[2].split()[1]) == parent.pid
        }
        assert not [argv for argv in children.values() if b"watchdog.py" in argv]
        (fork,) = [pid for pid, argv in children.items() if b"guard = Guard" in argv]
        parent.kill()
        assert wait_until(lambda: carriers(token) == [] and not (tmp_path / "run").exists())
        assert (Path("/proc") / str(fork)).exists()
    finally:
        if fork is not None:
            os.kill(fork, signal.SIGKILL)
        parent.kill()
        parent.communicate()
