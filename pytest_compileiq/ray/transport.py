"""Workers on the devices of a cluster: another carrier of the same messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pytest_compileiq.ray.cluster import Cluster
from pytest_compileiq.ray.place import Place
from pytest_compileiq.ray.remote import RayLine, RemoteDevice, launched
from pytest_compileiq.system.process import Guard
from pytest_compileiq.workers.carrier import MOST_LOSSES, Line, Transport, WorkerDied
from pytest_compileiq.workers.messages import Start


def open_transport(
    root: Path, guard: Guard, where: str, say: Callable[[str], None], start: Start, kinds: frozenset[str]
) -> Transport:
    """The devices of the cluster ``where``, for one run; raises as ``Cluster``."""
    return RayTransport(root, guard, where, say, start, kinds)


class RayTransport(Cluster):
    """A run's part in a cluster."""

    @property
    def carriers(self) -> Sequence[RayCarrier]:
        """One carrier to each device that the run began with."""
        return [RayCarrier(self, home) for home in range(len(self.places))]


@dataclass
class RayCarrier:
    """Starts workers on the devices of a cluster: worker 0 at ``home``, the others on those behind it, in turn.

    What a device is lost with is asked for again on another one, where there is one: it may have been the device's
    doing. What is lost there too was the candidate's.
    """

    cluster: Cluster
    home: int
    _avoided: dict[int, Place] = field(default_factory=dict)

    @property
    def devices(self) -> int:
        """How many places there are; a place that is gone is passed over."""
        return len(self.cluster.places)

    def launch(self, start: Start, number: int) -> Line:
        """Start one worker.

        Raises:
            WorkerDied: it ended at once.
            OSError: no device can be used.
        """
        place = self._place_of(number)
        device = place.reached()
        try:
            line = launched(device, start)
        except WorkerDied as death:
            self._lost(number, place, device, death)
            raise
        return RayLine(
            device, line, lambda: self._place_of(number).device,
            partial(self._done, number, place, device),
        )  # fmt: skip

    @contextmanager
    def alone(self, number: int, kinds: Sequence[str]) -> Iterator[None]:
        """Hold the device's turn, and on its machine the processor's lock where that is measured.

        Raises:
            OSError: no device can be used.
        """
        for tries_left in reversed(range(MOST_LOSSES)):
            place = self._place_of(number)
            with place.turn, self._held(number, place, kinds) as is_held:
                if (is_held and self._place_of(number) is place) or not tries_left:  # what is asked for next tells it
                    yield
                    return

    @contextmanager
    def _held(self, number: int, place: Place, kinds: Sequence[str]) -> Iterator[bool]:
        """Whether the processor's lock is held, if it has to be."""
        if "cpu" not in kinds:
            yield True
            return
        device = place.reached()
        try:
            device.ask("hold")
        except WorkerDied as death:
            self._lost(number, place, device, death)
            yield False
            return
        try:
            with self.cluster.processor_of(place).measuring():
                yield True
        finally:
            with suppress(WorkerDied):
                device.ask("release")

    def refuse(self, number: int, reason: str) -> WorkerDied:
        """Use the node of worker ``number`` no more: what it was to do is asked for elsewhere."""
        place = self._place_of(number)
        self.cluster.refuse(place.node, reason)
        return WorkerDied("lost", f"{place.name} is not used: {reason}")

    def sweep(self, spared: Collection[Line] = ()) -> None:
        """Kill what workers have left behind, unless somebody works there; those that live are spared, all of them."""
        for place in self.cluster.usable:
            if place.turn.acquire(blocking=False):  # who waits for a turn that has one waits for ever
                try:
                    with suppress(WorkerDied):
                        place.reached().ask("sweep")
                finally:
                    place.turn.release()

    def _place_of(self, number: int) -> Place:
        """Where worker ``number`` lives.

        Raises:
            ConnectionError: no device is left.
        """
        places, first = self.cluster.places, self.home + number
        in_turn = [places[(first + step) % len(places)] for step in range(len(places))]
        usable = [place for place in in_turn if place.is_usable]
        if not usable:
            raise ConnectionError(
                "no device of the Ray cluster is left: nothing that was finished is lost, and the same command goes on "
                "where there is one again"
            )
        return next((place for place in usable if place is not self._avoided.get(number)), usable[0])

    def _done(self, number: int, place: Place, device: RemoteDevice, death: WorkerDied | None) -> None:
        if death is not None:
            self._lost(number, place, device, death)
            return
        place.losses = 0
        self._avoided.pop(number, None)

    def _lost(self, number: int, place: Place, device: RemoteDevice, death: WorkerDied) -> None:
        if death.kind != "lost":
            return
        self.cluster.lost(place, device)
        before = self._avoided.pop(number, None)
        if before is None:
            self._avoided[number] = place
        elif before is not place:
            before.losses = place.losses = 0
