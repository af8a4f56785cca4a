"""What other machines do for a benchmark that this one tunes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from pytest_compileiq.benchmark.builds import Builds
from pytest_compileiq.benchmark.elsewhere import Maker
from pytest_compileiq.timing.base import Measures
from pytest_compileiq.toolchains.base import HostFlags


class Afar(Struct, frozen=True):
    """What is not done on this machine.

    Attributes:
        makers: gives those who make a benchmark's builds elsewhere too; None where nobody does.
        host_flags: what flags that name the host mean on the machine of the device; None where that is this one.
        measures: kind → what is measured on; empty where that is this machine.
    """

    makers: Callable[[Builds], Sequence[Maker]] | None = None
    host_flags: HostFlags | None = None
    measures: Mapping[str, Measures] = msgspec.field(default_factory=dict)


HERE = Afar()
