"""One device of a cluster, whichever actor owns it now."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_compileiq.ray.joined import Node, name_of
from pytest_compileiq.ray.luggage import Luggage
from pytest_compileiq.ray.remote import RemoteDevice
from pytest_compileiq.timing.base import Device


@dataclass
class Place:
    """One device of the cluster, whichever actor owns it now.

    Attributes:
        node: that it is of.
        has_gpu: whether it is one of the node's GPUs.
        turn: whoever works there has it.
        losses: of actors, since something was done there.
        is_usable: False once its node is gone or refused, or actors are lost there again and again.
        luggage: what its actors are given of this machine's files; None where its node sees these.
    """

    node: Node
    has_gpu: bool
    told: tuple[str, ...]
    turn: threading.RLock = field(default_factory=threading.RLock)
    losses: int = 0
    is_usable: bool = True
    luggage: Luggage | None = None
    device: RemoteDevice | None = None

    @property
    def name(self) -> str:
        """For messages."""
        return name_of(self.node)

    def reached(self) -> RemoteDevice:
        """Its device; of an actor that begins now, where the last one was lost."""
        if self.device is None or self.device.is_lost:
            self.device = RemoteDevice(self.node["NodeID"], self.name, self.told, has_gpu=self.has_gpu)
            if self.luggage is not None:
                self.device.furnish(self.luggage)
        return self.device


def named(devices: Sequence[Device]) -> str:
    """As models are told apart."""
    told = (
        (each.name, each.architecture, each.driver, f"{each.power_limit_w:g} W" if each.power_limit_w else None)
        for each in devices
    )
    return "; ".join(", ".join(filter(None, parts)) for parts in told)
