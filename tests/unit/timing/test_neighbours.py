"""Whose the processes on a GPU are: the rule on made-up ones, and what ``/proc`` says of real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pytest_compileiq.timing.gpu_watch import Family, Neighbours, neighbours

NOBODY = Neighbours()
PARENTS = {10: 1, 20: 10, 30: 20, 31: 20, 32: 31, 90: 1}  # pytest is 20, its workers are 30 and 31
HIDDEN = (500, 501, 502)


def lineage(pid: int) -> tuple[int, ...]:
    line = []
    while pid in PARENTS:
        line.append(pid)
        pid = PARENTS[pid]
    return tuple(line)


def family(*, on_gpu: int = 1, holds_context: bool = True) -> Family:
    return Family(30, holds_context, 20, lineage, lambda: on_gpu)


@pytest.mark.parametrize("listed", [(30,), (30, 20, 10), (30, 31, 32)])
def test_a_worker_its_ancestors_siblings_and_their_children_are_no_neighbours(listed):
    assert neighbours(listed, family()) == NOBODY


@pytest.mark.parametrize(
    ("listed", "known", "unknown", "said"),
    [
        ((30, 90), (90,), (), "90"),
        ((30, 500), (), (500,), "1 process of another container or user (pids on the host 500)"),
        (
            (501, 30, 90, 500),
            (90,),
            (500, 501),
            "90 and 2 processes of another container or user (pids on the host 500, 501)",
        ),
    ],
)
def test_where_this_process_is_listed_as_itself_whoever_is_not_of_its_family_is_a_neighbour(
    listed, known, unknown, said
):
    found = neighbours(listed, family(on_gpu=9))

    assert found == Neighbours(known, len(unknown), unknown)
    assert str(found) == said


@pytest.mark.parametrize(
    ("on_gpu", "unknown", "said"),
    [
        (3, 0, ""),
        (4, 0, ""),
        (2, 1, "1 process of another container or user (among the pids on the host 500, 501, 502)"),
        (0, 3, "3 processes of another container or user (pids on the host 500, 501, 502)"),
    ],
)
def test_under_the_numbers_of_another_namespace_whoever_is_more_than_we_are_is_a_neighbour(on_gpu, unknown, said):
    found = neighbours(HIDDEN, family(on_gpu=on_gpu))

    assert found == Neighbours((), unknown, HIDDEN if unknown else (), is_listed=False)
    assert str(found) == said


def test_a_foreign_number_that_means_one_of_us_here_hides_nobody():
    assert neighbours((31, 500), family(on_gpu=1)).unknown == 1


def test_a_process_that_is_known_here_is_a_neighbour_whatever_the_numbers_are():
    assert neighbours((90, 500), family(on_gpu=1)) == Neighbours((90,), is_listed=False)


def test_before_this_process_computes_nothing_need_list_it():
    assert neighbours((), family(holds_context=False)) == NOBODY
    assert neighbours((90,), family(holds_context=False)).known == (90,)


@pytest.mark.parametrize("listed", [(), None])
def test_a_list_without_even_this_process_shows_no_neighbours_and_does_not_deny_them(listed):
    found = neighbours(listed, family())

    assert (str(found), found.visible) == ("", False)


# ── /proc ────────────────────────────────────────────────────────────────────────────────────────────────────────

LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print(flush=True); input()"


@pytest.fixture
def libcuda(tmp_path) -> str:
    """An empty library of the driver's name."""
    made = tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-o", made, "-x", "c", os.devnull], check=True)
    return str(made)


@pytest.fixture
def child(libcuda) -> Iterator[subprocess.Popen[str]]:
    """A process below this one that has loaded the driver."""
    command = [sys.executable, "-c", LOAD, libcuda]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        yield process
        process.communicate("\n")


def here(monkeypatch: pytest.MonkeyPatch, *, parent_holds_context: bool = False) -> Family:
    """The family of a worker whose parent is this process."""
    monkeypatch.setattr(os, "getppid", os.getpid)
    return Family.of_worker(holds_context=True, parent_holds_context=parent_holds_context)


def test_those_of_us_on_the_gpu_are_who_has_loaded_the_driver_and_the_parent_if_it_computes(monkeypatch, child):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert here(monkeypatch).on_gpu() == 1
        assert here(monkeypatch, parent_holds_context=True).on_gpu() == 2
        other.communicate()


def test_a_lineage_ends_where_proc_ends(monkeypatch, child):
    lineage = here(monkeypatch).lineage

    assert lineage(child.pid)[:2] == (child.pid, os.getpid())
    assert lineage(2**31 - 1) == ()
