"""What runs as a Ray actor: it owns the workers of one device, on the device's machine, as a run without Ray would.

Its driver calls it from several threads at once, so that a hung candidate keeps no one from being heard.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import wraps
from itertools import count
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from pytest_compileiq.errors import fault_of
from pytest_compileiq.ray.remote_files import BUILDS, Arrivals, Spoilt
from pytest_compileiq.system.files import Unfit, inside
from pytest_compileiq.system.process import Guard
from pytest_compileiq.timing.clock import Measures
from pytest_compileiq.timing.registry import measures
from pytest_compileiq.workers.local import LocalConnection, LocalTransport, alone_here
from pytest_compileiq.workers.messages import Start, decode_order, encode
from pytest_compileiq.workers.start import environment_on
from pytest_compileiq.workers.transport import WorkerDied

UNHEARD_S = 60.0
CALLS_AT_ONCE = 8
_CHECK_S = 1.0
_PROJECT = "project"
_Answer = TypeVar("_Answer")

_OF_THE_DEVICE = "CUDA_VISIBLE_DEVICES", "ACF_MACHINE"  # Ray sets the first where the actor has a GPU


@dataclass(frozen=True)
class Ended:
    """In place of an answer: the worker died. An exception would reach the driver as Ray's own."""

    kind: str
    reason: str


def _answering(method: Callable[..., _Answer]) -> Callable[..., _Answer | Ended]:
    """Have a method return the reason why there is no answer; unless a worker died of it, that is the machine's."""

    @wraps(method)
    def answered(actor: DeviceActor, *arguments: object) -> _Answer | Ended:
        try:
            return method(actor, *arguments)
        except WorkerDied as death:  # its candidate's doing, unless all of this is ending, and the worker with it
            why = actor.why_over()
            return Ended("lost", why) if why else Ended(death.kind, death.reason)
        except (Spoilt, Unfit) as reason:
            return Ended("lost", str(reason))
        except OSError as error:
            return Ended("lost", fault_of(error))

    return answered


class DeviceActor:
    """The workers of one device."""

    def __init__(self, root: str, builds: str, probe: str) -> None:
        self._guard = Guard(Path(tempfile.gettempdir()) / f"compileiq-{secrets.token_hex(8)}")
        self._transport = LocalTransport(Path(root), self._guard, Path(builds))
        self._probe = Path(probe)
        self._arrivals = Arrivals(self._guard.folder / "arriving")
        self._environment: Mapping[str, str] | None = None  # the driver's, where its files are here
        self._lines: dict[int, LocalConnection] = {}
        self._numbers = count()
        self._alone = ExitStack()
        self._heard = time.monotonic()
        self._raylet = os.getppid()
        self._over = ""
        threading.Thread(target=self._end_unheard, daemon=True, name="compileiq-unheard").start()

    def hear(self) -> None:
        """The driver is there."""
        self._heard = time.monotonic()

    @_answering
    def take(self, message: bytes) -> None:
        """Keep contents of files that travel here."""
        self._arrivals.take(message)

    def settle(self, manifest: bytes) -> Ended | None:
        """From now on work on a copy of the project that has arrived, and on builds that will."""
        self._environment = environment_of_raylet()
        self._transport = LocalTransport(self._guard.folder / _PROJECT, self._guard, self._guard.folder / BUILDS)
        return self.unpack(manifest, _PROJECT)

    @_answering
    def unpack(self, manifest: bytes, place: str) -> None:
        """Put files that have arrived below ``place``, a path relative to this actor's folder."""
        self._arrivals.unpack(manifest, inside(self._guard.folder, place))

    def describe(self, kinds: list[str]) -> tuple[bool, dict[str, Measures]]:
        """Whether the driver's files are here, and what is measured on, of those kinds that there are."""
        found = {kind: measures(kind) for kind in kinds}
        return self._probe.exists(), {kind: of_kind for kind, of_kind in found.items() if of_kind is not None}

    @_answering
    def launch(self, start: bytes) -> int:
        """Start one worker; returns its number."""
        order = decode_order(start)
        assert isinstance(order, Start)
        sent = order.environment
        environment = sent if self._environment is None else environment_on(self._environment, sent)
        own = {name: os.environ[name] for name in _OF_THE_DEVICE if os.environ.get(name)}
        line = self._transport.launch(replace(order, environment={**environment, **own}), 0)
        number = next(self._numbers)
        self._lines[number] = line
        return number

    @_answering
    def send(self, number: int, order: bytes) -> None:
        """Hand one order on."""
        self._lines[number].send(decode_order(order))

    @_answering
    def receive(self, number: int, timeout_s: float) -> bytes:
        """The worker's next answer; its deadline begins here."""
        return encode(self._lines[number].receive(timeout_s))

    def close(self, number: int, wait_s: float) -> None:
        """Wait for a worker's end, and kill it if it does not end within ``wait_s``."""
        self._lines.pop(number).close(wait_s)

    def kill(self, number: int) -> None:
        """End a worker now."""
        self._lines.pop(number).kill()

    def hold(self) -> None:
        """Keep everybody else on this machine from measuring on its processor."""
        self._alone.enter_context(alone_here(["cpu"], self._transport.wait))

    def release(self) -> None:
        """The inverse of ``hold``."""
        self._alone.close()

    def sweep(self) -> None:
        """Kill whatever workers have left behind, but not the workers."""
        self._transport.sweep(list(self._lines.values()))

    def stop(self) -> None:
        """End all work."""
        self._guard.close()

    def why_over(self) -> str:
        """Why this process ends: its raylet has gone, which started it, and which Ray may take long to notice."""
        return self._over or ("the raylet of its node is gone" if os.getppid() != self._raylet else "")

    def _end_unheard(self) -> None:
        """End all work and this process if the driver has gone without a word, as with its machine or its network."""
        while not self.why_over():
            if time.monotonic() - self._heard > UNHEARD_S:
                self._over = f"it had heard nothing of this run for {UNHEARD_S:g} s"
            else:
                time.sleep(_CHECK_S)
        self._guard.close()
        os._exit(1)


def environment_of_raylet() -> dict[str, str]:
    """What this machine's part of the cluster began with."""
    # Not this process's own environment: Ray has added to that, such as a bound on the threads of OpenMP.
    try:
        pairs = Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0")
    except OSError:
        return dict(os.environ)
    return dict(os.fsdecode(pair).partition("=")[::2] for pair in pairs if b"=" in pair)
