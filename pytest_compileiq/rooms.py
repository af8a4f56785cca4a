"""Rooms that no other one imports, by what they register; what a run does not ask for is not imported.

Here stand names alone. A room of our own needs no entry point: reading those of all installed packages takes
milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

_TRANSPORT = "ray.transport"


def transport() -> ModuleType:
    """The module whose ``open_transport`` gives a run's workers on other machines (``workers.carrier.Transport``)."""
    return _imported(_TRANSPORT)


def _imported(name: str) -> ModuleType:
    return import_module(f"{__package__}.{name}")
