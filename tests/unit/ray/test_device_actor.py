"""An actor's own side, without Ray: its workers end with it, and it ends when nobody speaks to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_compileiq.ray import device_actor
from pytest_compileiq.ray.device_actor import DeviceActor, Ended
from pytest_compileiq.ray.remote_files import packed
from pytest_compileiq.workers.messages import Failed, Quit, Ready, Start, decode_answer, encode
from tests.files import write_files
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]


class Patient(DeviceActor):
    """An actor that would wait for its driver for ever: its end would be that of this process."""

    def _end_unheard(self):
        pass


@pytest.fixture
def short(tmp_path, monkeypatch):
    """Where the actor has its folder."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path / "tmp"


def test_orders_and_answers_pass_and_a_death_is_told_and_not_raised(tmp_path, short):
    (tmp_path / "pytest.ini").touch()
    device = Patient(str(tmp_path), str(tmp_path), str(tmp_path / "probe"))
    try:
        assert device.describe(["cpu"])[0] is False
        (tmp_path / "probe").touch()
        assert device.describe([]) == (True, {})
        start = Start(".", ("test_absent.py::test_k",), {}, (), (None,), {"PYTHONPATH": str(ROOT)})
        number = device.launch(encode(start))
        assert isinstance(decode_answer(device.receive(number, 60.0)), Failed)
        ended = device.receive(number, 60.0)
        assert isinstance(ended, Ended) and ended.kind == "crash"
        assert isinstance(device.send(number, encode(Quit())), Ended)
        device.close(number, 1.0)
    finally:
        device.stop()
    assert list(short.iterdir()) == []


@pytest.mark.parametrize(("parent", "kind"), [(None, "crash"), (1, "lost")])
def test_a_worker_that_ends_with_its_node_is_lost_and_no_crash_of_what_it_ran(
    tmp_path, short, monkeypatch, parent, kind
):
    monkeypatch.setattr(device_actor, "_CHECK_S", 3600.0)  # else it would end this process with the node
    write_files(tmp_path, {"pytest.ini": "", "test_k.py": "def test_k(): pass"})
    device = DeviceActor(str(tmp_path), str(tmp_path), str(tmp_path / "probe"))
    start = Start(".", ("test_k.py::test_k",), {}, (), (None,), {"PYTHONPATH": str(ROOT)})
    number = device.launch(encode(start))
    assert isinstance(decode_answer(device.receive(number, 60.0)), Ready)  # it now waits for orders, and says no more
    device.stop()
    if parent is not None:
        monkeypatch.setattr("os.getppid", lambda: parent)
    ended = device.receive(number, 60.0)
    assert isinstance(ended, Ended) and ended.kind == kind
    assert ("raylet" in ended.reason) == (kind == "lost")


def test_a_project_that_arrives_is_what_its_workers_collect_and_goes_with_it(tmp_path, short, monkeypatch):
    here = write_files(tmp_path / "here", {"pytest.ini": "", "tests/test_k.py": "def test_k(): pass"})
    project = packed(here, ["pytest.ini", "tests/test_k.py"], tmp_path / "contents")
    build = packed(write_files(tmp_path / "build", {"k.so": "code"}), ["k.so"], tmp_path / "contents")
    device = Patient(str(tmp_path / "nowhere"), str(tmp_path / "nowhere"), str(tmp_path / "nowhere/probe"))
    monkeypatch.setattr(device_actor, "environment_of_raylet", lambda: {**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        for message in project.messages():
            assert device.take(message) is None
        assert device.settle(project.manifest()) is None
        number = device.launch(encode(Start("tests", ("tests/test_k.py::test_k",), {}, (), (None,), {})))
        assert isinstance(decode_answer(device.receive(number, 60.0)), Ready)
        for message in build.messages():
            device.take(message)
        assert device.unpack(build.manifest(), "builds/k/baseline") is None
        assert [path.read_text() for path in short.glob("*/builds/k/baseline/k.so")] == ["code"]
        device.kill(number)
        assert device.unpack(project.manifest(), "elsewhere").kind == "lost"  # its contents are not there
        assert "outside" in device.unpack(build.manifest(), "../elsewhere").reason
    finally:
        device.stop()
    assert list(short.iterdir()) == []


def test_what_a_machine_was_set_up_with_is_that_of_its_raylet_and_not_what_ray_added(monkeypatch):
    own_parent = Path(f"/proc/{os.getppid()}/environ").read_bytes()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    environment = device_actor.environment_of_raylet()
    assert {f"{name}={value}" for name, value in environment.items()} == {
        os.fsdecode(pair) for pair in own_parent.split(b"\0") if b"=" in pair
    }


UNHEARD = """
import sys, time
from pytest_compileiq.ray import device_actor
device_actor.UNHEARD_S = 0.1
device_actor.DeviceActor(sys.argv[1], sys.argv[1], sys.argv[1])
time.sleep(60)
"""


def test_an_actor_that_does_not_hear_of_its_driver_ends_its_work(tmp_path, short):
    done = subprocess.run([sys.executable, "-c", UNHEARD, tmp_path], cwd=ROOT, timeout=30, check=False)
    assert done.returncode == 1
    assert wait_until(lambda: not list(short.iterdir()))
