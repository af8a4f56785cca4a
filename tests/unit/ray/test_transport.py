"""Devices of a cluster without Ray: which worker lives where, what a loss costs, and who is measured on at all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from pytest_compileiq.ray import transport as transport_module
from pytest_compileiq.ray.transport import Cluster, RayTransport
from pytest_compileiq.timing.clock import Device, Measures
from pytest_compileiq.workers.messages import Start
from pytest_compileiq.workers.transport import WorkerDied

START = Start(".", (), {}, (), (None,), {})
CPU = Device("EPYC", "x86_64")
LOST = WorkerDied("lost", "the worker's actor was lost: gone")


@dataclass
class FakeDevice:
    """An actor that is there until it is told to be lost."""

    name: str
    measures: dict[str, Measures]
    why_lost: str = ""
    asked: list[str] = field(default_factory=list)

    @property
    def is_lost(self) -> bool:
        return bool(self.why_lost)

    def begin(self, method: str, *arguments: object) -> str:
        return method

    def answer(self, method: str) -> object:
        return self.ask(method)

    def ask(self, method: str, *arguments: object) -> object:
        self.asked.append(method)
        if self.is_lost:
            raise WorkerDied("lost", self.why_lost)
        return {"describe": (True, self.measures), "launch": 7}.get(method)

    def beat(self) -> None: ...

    def stop(self) -> None:
        self.why_lost = "it was ended"


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """Begins a cluster of nodes by name, each with what it measures on; the first is the driver's own."""
    (tmp_path / "run").mkdir()
    said: list[str] = []
    alive: list[str] = []
    made: list[Cluster] = []

    def begin(kinds: frozenset[str] = frozenset(), gpus: int = 0, **nodes: dict[str, Measures]) -> Cluster:
        alive.extend(nodes)

        def described(node: str) -> dict[str, object]:
            resources = {"GPU": gpus} if gpus else {}
            return {"NodeID": node, "NodeManagerHostname": "host", "Resources": resources, "Alive": True}

        def device(node: str, name: str, told: object, files: object, **_: object) -> FakeDevice:
            return FakeDevice(name, nodes[node])

        monkeypatch.setattr(transport_module, "connect", lambda *_: None)
        monkeypatch.setattr(transport_module, "leave", lambda: None)
        monkeypatch.setattr(transport_module, "own_node", lambda: next(iter(nodes)))
        monkeypatch.setattr(transport_module, "unlike_nodes", lambda _: {})
        monkeypatch.setattr(transport_module, "living_nodes", lambda: [described(node) for node in alive])
        monkeypatch.setattr(transport_module, "RemoteDevice", device)
        monkeypatch.setattr(transport_module, "launched", lambda device, start: device.ask("launch"))
        cluster = Cluster(tmp_path, SimpleNamespace(folder=tmp_path / "run"), "ray", said.append, START, kinds)
        made.append(cluster)
        return cluster

    begin.said, begin.alive = said, alive
    yield begin
    for cluster in made:
        cluster.close()


def lose(cluster: Cluster, place: int) -> None:
    cluster.slots[place].reached().why_lost = "the worker's actor was lost: gone"


def ask_in_vain(carrier: RayTransport, number: int, line) -> None:
    with pytest.raises(WorkerDied, match="was lost"):
        line.send(START)


def worked(carrier: RayTransport, line) -> None:
    line.done(None)


def test_workers_are_spread_over_the_devices_from_their_home_on(begin):
    cluster = begin(a={}, b={}, c={})
    names = [RayTransport(cluster, 1).launch(START, number).device.name for number in range(4)]
    assert names == ["node b (host)", "node c (host)", "node a (host)", "node b (host)"]


def test_what_is_lost_is_tried_elsewhere_and_the_device_is_used_again_once_that_was_done(begin):
    cluster = begin(a={}, b={})
    carrier = RayTransport(cluster, 0)
    line = carrier.launch(START, 0)
    lose(cluster, 0)
    ask_in_vain(carrier, 0, line)
    guest = carrier.launch(START, 0)
    assert line.is_outdated and guest.device.name == "node b (host)" and not guest.is_outdated
    worked(carrier, guest)
    assert guest.is_outdated and carrier.launch(START, 0).device.name == "node a (host)"
    assert begin.said == ["the worker's actor was lost: gone; another one takes its place"]


def test_a_device_that_loses_what_another_one_does_is_left_out(begin):
    cluster = begin(a={}, b={})
    carrier = RayTransport(cluster, 0)
    for _ in range(2):
        line = carrier.launch(START, 0)
        assert line.device.name == "node a (host)"
        lose(cluster, 0)
        ask_in_vain(carrier, 0, line)
        worked(carrier, carrier.launch(START, 0))  # on b
    assert [place.is_usable for place in cluster.slots] == [False, True]
    assert begin.said[-1].endswith("2 in a row were lost there: going on with 1 other device")


def test_what_two_devices_are_lost_with_counts_against_neither(begin):
    cluster = begin(a={}, b={})
    carrier = RayTransport(cluster, 0)
    for _ in range(3):
        for place in (0, 1):
            line = carrier.launch(START, 0)
            lose(cluster, place)
            ask_in_vain(carrier, 0, line)
    assert [(place.is_usable, place.losses) for place in cluster.slots] == [(True, 0)] * 2


def test_the_last_device_is_never_left_out_while_its_node_is_there(begin):
    cluster = begin(a={})
    carrier = RayTransport(cluster, 0)
    for _ in range(4):
        line = carrier.launch(START, 0)
        lose(cluster, 0)
        ask_in_vain(carrier, 0, line)
    assert cluster.usable


def test_a_node_that_is_gone_is_told_once_whoever_sees_it(begin):
    cluster = begin(a={}, b={})
    lines = [RayTransport(cluster, 1).launch(START, number) for number in (0, 2)]
    begin.alive.remove("b")
    lose(cluster, 1)
    for line in lines:
        ask_in_vain(RayTransport(cluster, 1), 0, line)
    assert begin.said == ["the worker's actor was lost: gone; its node is gone: going on with 1 other device"]
    assert RayTransport(cluster, 1).launch(START, 0).device.name == "node a (host)"


def test_with_the_drivers_own_node_all_is_over_and_it_says_what_to_do(begin):
    cluster = begin(a={}, b={})
    line = RayTransport(cluster, 1).launch(START, 0)
    begin.alive.remove("a")
    lose(cluster, 1)
    ask_in_vain(RayTransport(cluster, 1), 0, line)
    assert "the node of this machine is gone" in begin.said[0] and "the same command goes on" in begin.said[0]
    with pytest.raises(ConnectionError, match="no device of the Ray cluster is left"):
        RayTransport(cluster, 0).launch(START, 0)


def test_a_device_has_one_turn_and_the_processor_is_held_where_it_is_measured(begin):
    cluster = begin(a={}, b={})
    first, second = RayTransport(cluster, 0), RayTransport(cluster, 1)
    entered = threading.Event()

    def on_the_same_device() -> None:
        with second.alone(1, ()):
            entered.set()

    with first.alone(0, ["cpu"]):
        waiting = threading.Thread(target=on_the_same_device)
        waiting.start()
        assert not entered.wait(0.1)
        first.sweep()  # by whoever has the turn; the other device is free
        with second.alone(0, ()):  # another device
            pass
    waiting.join(10)
    assert entered.is_set()
    assert [what for what in cluster.slots[0].reached().asked if what in ("hold", "sweep", "release")] == [
        "hold", "sweep", "release",
    ]  # fmt: skip


def test_who_has_a_turn_does_not_wait_for_another_one(begin):
    cluster = begin(a={}, b={})
    swept: list[bool] = []

    def sweep_the_rest() -> None:
        RayTransport(cluster, 1).sweep()
        swept.append(True)

    with RayTransport(cluster, 0).alone(0, ()):
        other = threading.Thread(target=sweep_the_rest)
        other.start()
        other.join(10)
    assert swept and "sweep" not in cluster.slots[0].reached().asked


def of(*names: str) -> dict[str, Measures]:
    return {
        kind: Measures(Device(name, "sm_90a", driver="570")) for kind, name in zip(("cuda", "cpu"), names, strict=False)
    }


MODELS: dict[str, tuple[Callable[..., Cluster], list[str], str]] = {
    "this machine's is kept": (
        lambda begin: begin(frozenset({"cuda"}), a=of("H200"), b=of("A100"), c=of("A100")),
        ["a"], "node b (host) measures on A100, sm_90a, 570, and this run on H200, sm_90a, 570: it is not measured on",
    ),
    "where it has none, those that are most": (
        lambda begin: begin(frozenset({"cuda"}), a={}, b=of("H200"), c=of("A100"), d=of("A100")),
        ["c", "d"], "node a (host) has no device of kind cuda: it is not measured on",
    ),
    "a run that measures nothing uses all": (
        lambda begin: begin(frozenset(), a=of("H200"), b=of("A100")), ["a", "b"], "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("which", MODELS)
def test_a_run_measures_on_devices_of_one_model(begin, which):
    make, kept, said = MODELS[which]
    cluster = make(begin)
    assert [place.node["NodeID"] for place in cluster.slots] == kept
    assert said in begin.said if said else not begin.said


def test_each_gpu_of_a_node_is_a_device(begin):
    assert [place.has_gpu for place in begin(gpus=2, a={}, b={}).slots] == [True] * 4


def test_a_cluster_without_a_device_for_the_run_is_refused(begin):
    with pytest.raises(ConnectionError, match="no node of the Ray cluster can be used"):
        begin(frozenset({"cuda"}), a={"cpu": Measures(CPU)})
