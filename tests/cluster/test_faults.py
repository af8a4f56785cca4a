"""What goes wrong on a cluster costs no evaluation: each fault is one line, and nothing is left of what was lost."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import needs
from tests.cluster.clusters import NAMESPACE, actors_of, parents, real_cluster, send
from tests.cluster.searches import BOTH, TWO_PY, Search
from tests.examples import SUM_C
from tests.projects import Project, make_project
from tests.waiting import wait_until

pytestmark = needs.ray
ROOT = Path(__file__).parents[2]
BUDGET = 10
LEFT_AFTER_S = 90
# Ray's own patience with a node that says nothing, else most of a minute.
IMPATIENT = {
    "RAY_health_check_initial_delay_ms": "1000", "RAY_health_check_period_ms": "2000",
    "RAY_health_check_timeout_ms": "4000", "RAY_health_check_failure_threshold": "3",
}  # fmt: skip


@pytest.fixture(scope="module")
def unkilled(tmp_path_factory):
    """The winners of a search that nobody disturbs."""
    made = make_project(tmp_path_factory.mktemp("unkilled"), {"sum.c": SUM_C, "test_sum.py": TWO_PY})
    made.pytest("--tune", f"--tune-budget={BUDGET}", code=0)
    return winners(made)


@pytest.fixture
def made(tmp_path):
    made = make_project(tmp_path / "project", {"sum.c": SUM_C, "test_sum.py": TWO_PY})
    (made.root / "wait").touch()
    return made


def winners(made: Project) -> list[bytes]:
    return [path.read_bytes() for name in BOTH for path in made.root.glob(f"acf/{name}/*.acf")]


def expect_whole(search: Search, output: str, unkilled: list[bytes]) -> None:
    """Nothing was lost, counted twice, or blamed on a candidate; no other winner was found than by an unkilled one."""
    assert search.driver.returncode == 0, output
    assert len(re.findall(rf"{BUDGET} evaluations in", output)) == 2, output
    assert not re.search(r"[1-9]\d* invalid|Traceback|\(raylet\)|core_worker", output), output
    assert winners(search.made) == unkilled, output


def expect_nothing_left(search: Search, temporary: Path) -> None:
    def is_clean() -> bool:
        folders = list(temporary.glob("compileiq-*"))
        return not search.left() and not actors_of(search.cluster.raylets) and not folders

    assert wait_until(is_clean, LEFT_AFTER_S), (search.left(), list(temporary.iterdir()))


def kill_actor(search: Search) -> None:
    send(search.off_the_head(), signal.SIGKILL)


def stop_actor(search: Search) -> None:
    send(search.off_the_head(), signal.SIGSTOP)


def kill_raylet(search: Search) -> None:
    send(parents()[search.off_the_head()], signal.SIGKILL)


def stop_raylet(search: Search) -> None:
    send(parents()[search.off_the_head()], signal.SIGSTOP)


def lose_node(search: Search) -> None:
    search.cluster.lose_node(parents()[search.off_the_head()])


FAULTS = {
    "an actor is killed": (kill_actor, "its worker process has died; another one takes its place"),
    "an actor stands still": (stop_actor, "not heard of for 60 s; another one takes its place"),
    "a raylet is killed": (kill_raylet, "the raylet of its node is gone|the connection to it broke"),
    "a raylet stands still": (stop_raylet, r"its node is gone: going on with 1 other device"),
    "a node goes down": (lose_node, "the connection to it broke|its node is gone"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_lost_on_the_way_is_one_line_and_costs_no_evaluation(made, unkilled, temporary, fault):
    hurt, said = FAULTS[fault]
    with real_cluster(2, **IMPATIENT) as cluster:
        search = Search(made, cluster, [f"--tune-budget={BUDGET}"])
        assert search.both_evaluate()
        hurt(search)
        assert search.says(said), search.printed
        search.go_on()
        output = search.output()
        expect_whole(search, output, unkilled)
        assert re.search(said, output)
        # Ray may take a while to notice that a node is gone, so that one more actor is begun there.
        assert 1 <= output.count("worker's actor on node") <= 2, output
        expect_nothing_left(search, temporary)


def test_a_driver_that_stood_still_for_longer_than_actors_wait_goes_on_with_others(made, unkilled, temporary):
    with real_cluster(2) as cluster:
        search = Search(made, cluster, [f"--tune-budget={BUDGET}"])
        assert search.both_evaluate()
        before = actors_of(cluster.raylets)
        send(search.driver.pid, signal.SIGSTOP)
        assert wait_until(lambda: not set(before) & set(actors_of(cluster.raylets)), 90)
        send(search.driver.pid, signal.SIGCONT)
        search.go_on()
        output = search.output()
        expect_whole(search, output, unkilled)
        assert output.count("another one takes its place") == output.count("worker's actor on node") == 2, output
        expect_nothing_left(search, temporary)


def test_a_slow_node_is_waited_for(made, unkilled, temporary):
    with real_cluster(2) as cluster:
        search = Search(made, cluster, [f"--tune-budget={BUDGET}"])
        assert search.both_evaluate()
        slow = search.off_the_head()
        send(slow, signal.SIGSTOP)
        search.go_on()
        time.sleep(15)
        send(slow, signal.SIGCONT)
        output = search.output()
        expect_whole(search, output, unkilled)
        assert "worker's actor on node" not in output
        expect_nothing_left(search, temporary)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_driver_leaves_nothing_on_the_cluster_and_the_same_command_goes_on(made, unkilled, temporary, number):
    with real_cluster(2) as cluster:
        killed = Search(made, cluster, [f"--tune-budget={BUDGET}"])
        assert killed.both_evaluate()
        killed.driver.send_signal(number)
        assert "Traceback" not in killed.output() and killed.driver.returncode == -number
        expect_nothing_left(killed, temporary)
        killed.go_on()
        search = Search(made, cluster, [f"--tune-budget={BUDGET}"])
        expect_whole(search, search.output(), unkilled)


@pytest.mark.parametrize("what", ["its head", "the node of the driver's machine"])
def test_a_cluster_that_goes_away_ends_the_search_with_a_sentence_and_another_one_goes_on_with_it(
    made, unkilled, temporary, what
):
    with real_cluster(2, **IMPATIENT, RAY_gcs_rpc_server_reconnect_timeout_s="5") as cluster:
        search = Search(made, cluster, [f"--tune-budget={BUDGET}"])
        assert search.both_evaluate()
        send(cluster.head if what == "its head" else cluster.raylets[0], signal.SIGKILL)
        output = search.output()
        assert search.driver.returncode == 1 and "Traceback" not in output, output
        assert "nothing that was finished is lost, and the same command goes on" in output
        assert output.count("worker's actor on node") <= 3, output
        expect_nothing_left(search, temporary)
    search.go_on()
    with real_cluster(1) as cluster:
        again = Search(made, cluster, [f"--tune-budget={BUDGET}"])
        output = again.output()
        expect_whole(again, output, unkilled)
        assert output.count("resuming: ") == 2, output


def test_a_search_ends_with_its_result_beside_a_node_that_stands_still(made, unkilled, temporary):
    """Ray would wait for it for ever."""
    with real_cluster(1) as cluster:
        search = Search(made, cluster, [f"--tune-budget={BUDGET}", "-k", "first"])
        assert wait_until(lambda: search.actors("first"), 120)
        send(cluster.raylets[0], signal.SIGSTOP)
        search.go_on()
        output = search.output()
        assert search.driver.returncode == 0, output
        assert winners(made) == unkilled[:1], output
        expect_nothing_left(search, temporary)


def test_where_nobody_listens_is_told_at_once(made):
    output = made.pytest("--tune", "--tune-on=127.0.0.1:1", "-k", "first", code=1)
    assert "Connection refused: is it the HOST:PORT that ray start --head printed" in output


DEADLY_PY = """\
import os, signal, time
from pathlib import Path
import pytest
from pytest_compileiq import Cc, choice, literal, minimize

SPACE = {"-O": choice([2, 3]), "-funroll-loops": literal("", knockout_prob=0.5)}

@pytest.mark.tune(Cc("sum.c", flags="-O1"), space=SPACE, engine="grid", objectives=[minimize("code_bytes")])
def test_total(acf):
    acf.build()
    if acf.path and {"-O3", "-funroll-loops"} <= set(acf.path.read_text().split()):
        with Path("total.actors").open("a") as stream:
            stream.write(f"{os.getppid()}\\n")
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(300)
"""


def test_a_candidate_that_ends_what_it_runs_on_is_named_after_two_and_asked_for_no_more(tmp_path, temporary):
    made = make_project(tmp_path / "project", {"sum.c": SUM_C, "test_sum.py": DEADLY_PY})
    with real_cluster(3) as cluster:
        search = Search(made, cluster, ["--tune-budget=4"])
        output = search.output()
        assert search.driver.returncode == 0, output
        assert len(set(search.actors("total"))) == len(search.actors("total")) == 2
        named = (
            r"1 invalid \(lost\): 2 workers were lost with -O3 -funroll-loops: the worker's actor on node (\w+) .*; "
        )
        assert re.search(named, output), output
        assert output.count("another one takes its place") == 2, output
        expect_nothing_left(search, temporary)


def can_hide() -> bool:
    return shutil.which("unshare") is not None and not subprocess.run(
        [*NAMESPACE, "mount -t tmpfs tmpfs /mnt"], capture_output=True, check=False
    ).returncode  # fmt: skip


can_hide_files = pytest.mark.skipif(not can_hide(), reason="nothing can be mounted in a namespace here")


@can_hide_files
def test_a_node_whose_disk_is_full_is_given_up_and_the_others_go_on(made, unkilled, temporary, tmp_path):
    (tmp_path / "small").mkdir()
    with real_cluster(1) as cluster:
        # Room for the actor's folder alone: Python itself takes another directory where none at all is left.
        mount = f"mount -t tmpfs -o nr_inodes=2 tmpfs {tmp_path}/small"
        cluster.add_hidden_node(f"{mount} && export TMPDIR={tmp_path}/small")
        search = Search(made, cluster, [f"--tune-budget={BUDGET}"])
        search.go_on()
        output = search.output()
        expect_whole(search, output, unkilled)
        assert re.search("was lost: No space left on device.*: free some space, or name another", output), output


TIMED_PY = """\
import pytest
from pytest_compileiq import Cc

@pytest.mark.tune(Cc("sum.c", flags="-O1"))
def test_total(acf):
    total = acf.build().load().total
    acf.measure(lambda: total(None, 0))
"""


@can_hide_files
def test_a_run_measures_on_one_model_of_device_and_says_what_it_leaves_out(tmp_path, temporary):
    made = make_project(tmp_path / "project", {"sum.c": SUM_C, "test_sum.py": TIMED_PY})
    (tmp_path / "cpuinfo").write_text("model name : Another\n")
    with real_cluster(1) as cluster:
        cluster.add_hidden_node(f"mount --bind {tmp_path}/cpuinfo /proc/cpuinfo")
        search = Search(made, cluster, ["--tune-budget=2"])
        output = search.output()
        assert re.search(r"node .* measures on Another.*, and this run on .*: it is not measured on", output), output
        assert search.driver.returncode == 0, output


def test_ten_kills_cost_nothing(temporary):
    """Of actors, nodes and drivers, at random moments."""
    done = subprocess.run(
        [sys.executable, "bench/kills.py", "--where=cluster", "--kills=10", "--budget=20", "--seed=7"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    last = done.stdout.splitlines()[-1]
    costs = re.findall(r"(\d+) (?:evaluations lost|counted|invalid|artifacts|other|runs that|processes|folders)", last)
    assert re.match(r"1\d kills", last) and len(costs) == 8 and set(costs) == {"0"}, done.stdout
