"""Links of a run: builds whose objects are the same bytes are linked once, and every other one has a copy."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Links:
    """What was linked, by the objects, beside which it lies. Safe to use from several threads."""

    _linked: dict[tuple[Path, bytes], Path] = field(default_factory=dict)

    def __reduce__(self) -> tuple[type[Links], tuple[()]]:
        return Links, ()  # another process has its own

    def link(self, objects: Sequence[Path], output: Path, link: Callable[[], object]) -> None:
        """Make ``output`` of ``objects``, by ``link`` where nothing beside it was linked of the same."""
        try:
            digests = b"".join(hashlib.sha256(each.read_bytes()).digest() for each in objects)
        except OSError:  # a compiler that makes nothing: the linker says so
            link()
            return
        key = output.parent.parent, digests
        if (linked := self._linked.get(key)) is not None:
            with suppress(OSError):  # it has been removed
                shutil.copy(linked, output)
                return
        link()
        self._linked[key] = output
