"""A search that is killed at any moment goes on: nothing finished is lost, nothing is evaluated twice, nothing is torn."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib

import pytest

from tests import needs
from tests.examples import KERNEL_C, KERNEL_H, SIZE_PY, SUM_C, TEST_PY
from tests.projects import NOT_NEEDED, Project

pytestmark = pytest.mark.slow

WAIT = """while not acf.is_baseline and __import__("os").path.exists("wait"):
        time.sleep(0.02)"""
BUDGET = 30


def start(made: Project, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    argv = [sys.executable, "-m", "pytest", *(f"-pno:{name}" for name in NOT_NEEDED), "--tune", *arguments]
    return subprocess.Popen(argv, cwd=made.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def journal(made: Project) -> list[tuple]:
    """(number, batch, place, scores, failure) of every finished evaluation."""
    path = made.root / ".compileiq" / "journal.sqlite3"
    if not path.exists():
        return []
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection:
            return connection.execute(
                "SELECT number, batch, place, scores, failure FROM evaluation ORDER BY number"
            ).fetchall()
    except sqlite3.OperationalError as error:  # killed before it had made its tables
        assert "no such table" in str(error)
        return []


def wait_for(made: Project, evaluations: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while len(journal(made)) < evaluations and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


@pytest.fixture
def made(project):
    return project({"sum.c": SUM_C, "test_sum.py": SIZE_PY})


def test_a_killed_search_goes_on_and_ends_as_an_unkilled_one(made, tmp_path):
    whole = Project(shutil.copytree(made.root, tmp_path / "whole"))
    whole.pytest("--tune", f"--tune-budget={BUDGET}", code=0)
    kept: list[tuple] = []
    for at in (3, 11, 19):
        process = start(made, f"--tune-budget={BUDGET}")
        wait_for(made, at, process)
        kill(process)
        now = journal(made)
        assert now[: len(kept)] == kept  # nothing finished is lost or evaluated again
        assert [row[0] for row in now] == list(range(len(now)))
        kept = now
    assert not (made.root / "acf").exists()
    output = made.pytest("--tune", f"--tune-budget={BUDGET}", code=0)
    assert f"resuming: {len(kept)} evaluations of an earlier run are kept" in output
    (one,), (other,) = (list(each.root.glob("acf/total/*.acf")) for each in (made, whole))
    assert one.read_bytes() == other.read_bytes()  # the engine went on with the same random stream
    stored = tomllib.loads(made.one("acf/total/*.toml").read_text())
    assert stored["search"]["evaluations"] == BUDGET
    assert journal(made) == []
    assert "1 proven" in made.pytest(code=0)


def test_a_killed_search_with_timings_goes_on(project):
    of_all_options = re.sub(r"space=.*", 'space="default",', TEST_PY)
    made = project({"kernel.c": KERNEL_C, "kernel.h": KERNEL_H, "test_kernel.py": of_all_options})
    kept: list[tuple] = []
    for at in (5, 19):
        process = start(made, f"--tune-budget={BUDGET}")
        wait_for(made, at, process)
        kill(process)
        now = journal(made)
        assert now[: len(kept)] == kept
        kept = now
    output = made.pytest("--tune", f"--tune-budget={BUDGET}")
    assert f"resuming: {len(kept)} evaluations of an earlier run are kept" in output
    assert "does not go on" not in output
    assert f"{BUDGET} evaluations in" in output
    assert journal(made) == []


def test_kills_at_random_moments_lose_and_tear_nothing(made):
    coins = random.Random(7)
    kept: list[tuple] = []
    for _ in range(5):
        process = start(made, f"--tune-budget={BUDGET}")
        time.sleep(0.3 + 1.5 * coins.random())
        kill(process)
        now = journal(made)
        assert now[: len(kept)] == kept or (made.root / "acf").exists()
        kept = now
        for artifact in made.root.glob("acf/*/*.toml"):
            tomllib.loads(artifact.read_text())
    made.pytest("--tune", f"--tune-budget={BUDGET}", code=0)
    assert "1 proven" in made.pytest(code=0)


def test_ctrl_c_proves_the_best_so_far_and_the_next_run_goes_on(made):
    process = start(made, "--tune-budget=2000")
    wait_for(made, 20, process)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=120)[0].decode()
    assert process.returncode == 2, output
    assert "TUNED" in output and "Interrupted: the same command goes on with the search" in output
    assert re.search(r"interrupted after \d+: the same command goes on", output)
    before = len(journal(made))
    assert before >= 20
    (made.root / "test_sum.py").write_text(SIZE_PY)
    assert f"resuming: {before} evaluations" in made.pytest("--tune", f"--tune-budget={before + 4}", code=0)


INTERRUPTING_PY = """
import signal
from pytest_compileiq.tuning import run

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background begins without one
run.prove_winner = lambda *_, **_named: signal.raise_signal(signal.SIGINT)
"""


def test_ctrl_c_in_the_proof_says_that_the_same_command_goes_on(made):
    (made.root / "interrupting.py").write_text(INTERRUPTING_PY)
    process = start(made, "--tune-budget=6", "-pinterrupting")
    output = process.communicate(timeout=120)[0].decode()
    assert process.returncode == 2, output
    assert "interrupted: the same command goes on with the search" in output
    assert "KeyboardInterrupt" not in output and not (made.root / "acf").exists()
    assert "resuming: 6 evaluations" in made.pytest("--tune", "--tune-budget=6", code=0)


def test_what_changed_is_named_and_the_search_starts_anew(made):
    for change, said in (
        (("sum.c", "sum += x[i] * x[i]", "sum += x[i] * x[i] + 1"), "its baseline's machine code changed"),
        (("test_sum.py", "acf.build()", "assert acf.build()"), "its benchmark changed"),
    ):
        process = start(made, f"--tune-budget={BUDGET}")
        wait_for(made, 5, process)
        kill(process)
        made.edit(*change)
        output = made.pytest("--tune", "--tune-budget=4", code=0)
        assert said in output
        assert "resuming" not in output


def test_fresh_ignores_the_journal_and_git_ignores_it(made):
    process = start(made, f"--tune-budget={BUDGET}")
    wait_for(made, 5, process)
    kill(process)
    assert (made.root / ".compileiq" / ".gitignore").read_text() == "*\n"
    output = made.pytest("--tune", "--tune-fresh", "--tune-budget=4", code=0)
    assert "resuming" not in output
    assert "4 evaluations" in output


def test_two_searches_of_one_benchmark_do_not_meet(made):
    made.edit("test_sum.py", "time.sleep(0.02)", WAIT)
    process = start(made, "--tune-budget=2000")
    wait_for(made, 2, process)
    (made.root / "wait").touch()  # neither search can end
    assert "is being searched by another pytest --tune" in made.pytest("--tune", "--tune-budget=4", code=1)
    kill(process)


def test_a_broken_journal_is_one_sentence_and_a_normal_run_makes_none(made):
    made.pytest(code=1)
    assert not (made.root / ".compileiq").exists()
    (made.root / ".compileiq").mkdir()
    (made.root / ".compileiq" / "journal.sqlite3").write_bytes(b"no database" * 200)
    assert "remove it, and the search starts anew" in made.pytest("--tune", "--tune-budget=4", code=1)


@needs.ptxas
@needs.compileiq
@needs.search_spaces
def test_a_search_by_compileiq_goes_on_from_its_checkpoint(project):
    ptx = (
        ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .b64 %rd<3>;\n"
        ".reg .f32 %f<40>;\nld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1;\n"
        + "".join(f"ld.volatile.global.f32 %f{k}, [%rd2+{4 * k}];\n" for k in range(40))
        + "bar.sync 0;\n"
        + "".join(f"st.volatile.global.f32 [%rd2+{4 * k}], %f{39 - k};\n" for k in range(40))
        + "ret;\n}\n"
    )
    test = SIZE_PY.replace('Cc("sum.c", flags="-O1 -fstrict-aliasing")', 'Ptxas("k.ptx", arch="sm_90a")').replace(
        "import Cc", "import Ptxas"
    )
    made = project({"k.ptx": ptx, "test_sum.py": test})
    process = start(made, "--tune-budget=40")
    wait_for(made, 20, process)
    kill(process)
    kept = journal(made)
    output = made.pytest("--tune", "--tune-budget=40", code=0)
    assert f"resuming: {len(kept)} evaluations" in output
    assert "40 evaluations" in output
