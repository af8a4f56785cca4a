"""What an actor is given: by this machine's end and by its own, without Ray between them."""

from __future__ import annotations

import threading

import pytest

from pytest_compileiq.ray import remote_files
from pytest_compileiq.ray.device_actor import DeviceActor
from pytest_compileiq.ray.remote import SentFiles
from pytest_compileiq.ray.remote_files import RemoteFiles
from pytest_compileiq.system.process import Guard
from pytest_compileiq.workers.transport import WorkerDied
from tests.files import write_files


class Patient(DeviceActor):
    """An actor that would wait for its driver for ever: its end would be that of this process."""

    def _end_unheard(self):
        pass


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A project and the folder of a run, which holds one build."""
    monkeypatch.setattr(remote_files, "expect_own_code", lambda *_: None)
    with Guard(tmp_path / "run") as guard:
        write_files(guard.folder, {"k/baseline/k.so": "code", "k/baseline/result.json": "{}"})
        root = write_files(tmp_path / "project", {"pytest.ini": "", "k.c": "int k;"})
        yield RemoteFiles(root, guard, print)


@pytest.fixture
def there(tmp_path, monkeypatch):
    """An actor's own end, and the calls of it."""
    (tmp_path / "node").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "node"))
    device, calls = Patient("/nowhere", "/nowhere", "/nowhere/probe"), []

    def ask(method, *arguments):
        calls.append(method)
        assert (refused := getattr(device, method)(*arguments)) is None, refused

    yield ask, calls, tmp_path / "node"
    device.stop()


def files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_project_and_a_build_arrive_once_where_workers_look_for_them(here, there):
    ask, calls, node = there
    given = SentFiles(here, ask)
    build = here.guard.folder / "k/baseline"
    for _ in range(2):
        given.settle()
        given.bring(build)
    (folder,) = node.iterdir()
    assert files(folder / "project") == {"pytest.ini", "k.c"}
    assert files(folder / "builds") == {"k/baseline/k.so", "k/baseline/result.json"}
    assert (calls.count("settle"), calls.count("unpack")) == (1, 1)
    assert not list(here.guard.folder.glob("sent-*"))


def test_every_actor_has_the_project_as_it_was_when_the_run_began(here, there):
    ask, _, node = there
    here.project()
    (here.root / "k.c").write_text("changed")
    SentFiles(here, ask).settle()
    (folder,) = node.iterdir()
    assert (folder / "project/k.c").read_text() == "int k;"


def test_threads_that_ask_at_once_get_one_delivery(here, there):
    ask, calls, _ = there
    given, meeting = SentFiles(here, ask), threading.Barrier(4)

    def settle():
        meeting.wait(20)
        given.settle()

    threads = [threading.Thread(target=settle) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert calls.count("settle") == 1


def test_what_was_not_kept_is_not_taken_for_delivered(here):
    asked = []

    def ask(method, *arguments):
        asked.append(method)
        raise WorkerDied("lost", "No space left on device")

    given = SentFiles(here, ask)
    for _ in range(2):
        with pytest.raises(WorkerDied, match="No space left"):
            given.settle()
    assert asked == ["take", "take"]
