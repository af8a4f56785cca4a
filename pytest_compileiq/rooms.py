"""Rooms that no other one imports, by what they register; what a run does not ask for is not imported.

Here stand names alone. A room of our own needs no entry point: reading those of all installed packages takes
milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

_VERBS = {"capture": "capture.verb", "history": "history.verb"}
_TRANSPORT = "ray.transport"
_PAST = "history.page"
HISTORY_DIRECTORY = "acf-history"  # beside acf/


def verbs() -> tuple[str, ...]:
    """The verbs of the ``acf`` command that rooms have."""
    return tuple(_VERBS)


def verb(name: str) -> ModuleType:
    """The module whose ``add_verbs`` adds the verb ``name``, one of ``verbs()``, to the ``acf`` command."""
    return _imported(_VERBS[name])


def transport() -> ModuleType:
    """The module whose ``open_transport`` gives workers on other machines (``workers.transport.Transports``)."""
    return _imported(_TRANSPORT)


def past(root: Path) -> ModuleType | None:
    """The module whose ``with_history`` and ``page_parts`` tell earlier runs of a project; None where it keeps none."""
    return _imported(_PAST) if (root / HISTORY_DIRECTORY).exists() else None


def _imported(name: str) -> ModuleType:
    return import_module(f"{__package__}.{name}")
