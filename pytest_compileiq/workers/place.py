"""One device of a cluster, whichever actor owns it now, and which devices one search may be on."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_compileiq.workers.carrier import WorkerDied
from pytest_compileiq.workers.ray_cluster import Node, name_of
from pytest_compileiq.workers.remote import RemoteDevice


@dataclass
class Place:
    """One device of the cluster, whichever actor owns it now.

    Attributes:
        node: that it is of.
        has_gpu: whether it is one of the node's GPUs.
        turn: whoever works there has it.
        losses: of actors, since something was done there.
        is_usable: False once its node is gone or refused, or actors are lost there again and again.
        shares_files: whether its node sees this machine's files.
    """

    node: Node
    has_gpu: bool
    told: tuple[str, ...]
    turn: threading.RLock = field(default_factory=threading.RLock)
    losses: int = 0
    is_usable: bool = True
    shares_files: bool = True
    device: RemoteDevice | None = None

    @property
    def name(self) -> str:
        """For messages."""
        return name_of(self.node)

    def reached(self) -> RemoteDevice:
        """Its device; of an actor that begins now, where the last one was lost."""
        if self.device is None or self.device.is_lost:
            self.device = RemoteDevice(
                self.node["NodeID"], self.name, self.told, has_gpu=self.has_gpu, shares_files=self.shares_files
            )
        return self.device


def left_out(places: Sequence[Place], own_node: str) -> list[tuple[Place, str]]:
    """The devices that a search cannot be on with the others, and why: those of another model than this machine's.

    Where none of this machine's is used, it is the first one's model that counts. What is fast on one model need not be
    on another, and a claim is about one. A machine that sees other files is asked for its processor test by test.
    """
    models: list[tuple[Place, str]] = []
    out: list[tuple[Place, str]] = []
    for place in places:
        if place.has_gpu or place.shares_files:
            try:
                models.append((place, place.reached().ask("model")))
            except WorkerDied as death:
                out.append((place, f"{death.reason}: it is not used"))
    kept: dict[bool, str] = {}
    for place, model in sorted(models, key=lambda each: each[0].node["NodeID"] != own_node):
        if model != kept.setdefault(place.has_gpu, model):
            wanted = kept[place.has_gpu]
            out.append((place, f"{place.name} is not used: it measures on {model}, and this run on {wanted}"))
    return out
