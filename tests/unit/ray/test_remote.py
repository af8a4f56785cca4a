"""An actor as its driver knows it, without Ray: what is asked in which order, and whose doing a death is."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest

from pytest_compileiq.ray import cluster, remote
from pytest_compileiq.ray.cluster import leave, living_nodes, what_ray_says
from pytest_compileiq.ray.device_actor import Ended
from pytest_compileiq.ray.remote import RemoteDevice
from pytest_compileiq.workers.transport import WorkerDied


class RayError(Exception):
    pass


class ActorDiedError(RayError):
    actor_init_failed = False


class ActorUnavailableError(RayError):
    pass


class RayTaskError(RayError):
    pass


class FakeRay:
    """What the package asks of Ray: an actor whose answers are given by method, and that may be silent.

    Attributes:
        answers: method → what it answers, the next one first; an exception is raised; None once there are no more.
        asked: the methods that were called, in order; ``ray.kill`` as "killed".
        is_silent: nothing is answered any more.
    """

    def __init__(self) -> None:
        self.answers: dict[str, list[object]] = {}
        self.asked: list[str] = []
        self.is_silent = False
        self.nodes = lambda: []
        self.shutdown = lambda: self.asked.append("shutdown")
        self.exceptions = SimpleNamespace(
            RayError=RayError, ActorDiedError=ActorDiedError, ActorUnavailableError=ActorUnavailableError,
            RayTaskError=RayTaskError,
        )  # fmt: skip

    def remote(self, kind: type) -> FakeRay:
        return self

    def options(self, **options: object) -> SimpleNamespace:
        return SimpleNamespace(remote=lambda *told: _Actor(self))

    def wait(self, references: list[str], timeout: float) -> tuple[list[str], list[str]]:
        return ([], references) if self.is_silent else (references, [])

    def get(self, reference: str, timeout: float | None = None) -> object:
        answer = (self.answers.get(reference) or [None]).pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def kill(self, actor: object) -> None:
        self.asked.append("killed")


class _Actor:
    def __init__(self, ray: FakeRay) -> None:
        self._ray = ray

    def __getattr__(self, method: str) -> SimpleNamespace:
        def begin(*arguments: object) -> str:
            self._ray.asked.append(method)
            return method

        return SimpleNamespace(remote=begin)


@pytest.fixture
def ray(monkeypatch):
    fake = FakeRay()
    strategies = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda *given, **named: None)
    for name, module in {"ray": fake, "ray.util": fake, "ray.util.scheduling_strategies": strategies}.items():
        monkeypatch.setitem(sys.modules, name, module)
    return fake


@pytest.fixture
def device(ray):
    return RemoteDevice("1f", "node 1f (host)", ("root",), has_gpu=False)


def test_a_crash_counts_once_the_actor_was_heard_of_after_it(ray, device):
    ray.answers = {"receive": [Ended("crash", "killed by SIGKILL")]}
    with pytest.raises(WorkerDied, match="killed by SIGKILL") as death:
        device.ask("receive", 0, 60.0)
    assert death.value.kind == "crash" and not device.is_lost
    assert ray.asked == ["receive", "hear"]


def test_a_crash_is_a_loss_where_the_actor_ends_too(ray, device):
    ray.answers = {"receive": [Ended("crash", "killed by SIGKILL")], "hear": [ActorUnavailableError("rpc")]}
    with pytest.raises(WorkerDied, match=r"node 1f .* was lost: the connection to it broke") as death:
        device.ask("receive", 0, 60.0)
    assert death.value.kind == "lost" and device.is_lost
    assert ray.asked == ["receive", "hear", "killed"]


@pytest.mark.parametrize("kind", ["timeout", "wrong"])
def test_what_the_candidate_did_is_not_asked_about(ray, device, kind):
    ray.answers = {"receive": [Ended(kind, "its doing")]}
    with pytest.raises(WorkerDied, match="its doing"):
        device.ask("receive", 0, 60.0)
    assert ray.asked == ["receive"]


def test_an_actor_that_says_that_it_ends_is_given_up_and_not_asked_again(ray, device):
    ray.answers = {"launch": [Ended("lost", "no space left")]}
    for _ in range(2):
        with pytest.raises(WorkerDied, match="was lost: no space left") as death:
            device.ask("launch", b"")
        assert death.value.kind == "lost"
    assert ray.asked == ["launch", "killed"]


def test_an_actor_that_is_silent_is_given_up(ray, device, monkeypatch):
    monkeypatch.setattr(remote, "UNHEARD_S", -1.0)
    ray.is_silent = True
    with pytest.raises(WorkerDied, match="not heard of for"):
        device.ask("receive", 0, 600.0)
    assert ray.asked == ["receive", "killed"]


def test_a_beat_is_not_repeated_before_it_is_answered(ray, device):
    ray.is_silent = True
    for _ in range(3):
        device.beat()
    assert ray.asked == ["hear"]
    ray.is_silent = False
    device.beat()
    assert ray.asked == ["hear", "hear"]


DIED = "The actor died unexpectedly before finishing this task.\n\tclass_name: Device\n\tactor_id: 1f\n"
SAID = {
    "a process": (ActorDiedError(f"{DIED}The actor is dead because its worker process has died. Worker exit type: …"),
                  "The actor is dead because its worker process has died"),
    "a node": (ActorDiedError(f"{DIED}The actor died because its node has died. Node Id: 1f\n\thealth check failed"),
               "The actor died because its node has died"),
    "no cause": (ActorDiedError("The actor died unexpectedly before finishing this task."),
                 "The actor died unexpectedly before finishing this task"),
    "a connection": (ActorUnavailableError("The actor 1f is unavailable: … rpc_code: 14. The task may or may not …"),
                     "the connection to it broke"),
    "an exception": (RayTaskError("ray::Device.close()\n  File …\nKeyError: 3"), "KeyError: 3"),
    "memory": (RayError("1 worker(s) were killed due to the node running low on memory. Memory on the node (IP: …"),
               "1 worker(s) were killed due to the node running low on memory"),
    "nothing": (RayError(""), "RayError"),
}  # fmt: skip


@pytest.mark.parametrize("what", SAID)
def test_what_ray_says_is_cut_to_the_cause(ray, what):
    error, said = SAID[what]
    assert what_ray_says(error) == said


def test_a_cluster_that_does_not_answer_is_waited_for_no_longer_than_a_while(ray, monkeypatch):
    hanging = threading.Event()
    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.01)
    ray.nodes = ray.shutdown = hanging.wait
    try:
        with pytest.raises(ConnectionError, match=r"has not answered for 0\.01 s"):
            living_nodes()
        leave()
    finally:
        hanging.set()


def test_a_cluster_that_is_gone_is_said_to_be(ray):
    def gone() -> None:
        raise RuntimeError("no GCS")

    ray.nodes = gone
    with pytest.raises(ConnectionError, match="the Ray cluster is gone: no GCS"):
        living_nodes()
    ray.nodes = lambda: [{"NodeID": "1f", "Alive": True}, {"NodeID": "2f", "Alive": False}]
    assert [node["NodeID"] for node in living_nodes()] == ["1f"]
