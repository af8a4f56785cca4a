"""The machine that runs what is built, where that is another one than this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.timing.base import Device
from pytest_compileiq.toolchains.base import HostFlags


@dataclass(frozen=True)
class Host:
    """Another machine, by what it says of itself.

    Attributes:
        flags: what each flag that names the host, such as ``-march=native``, means there.
        devices: kind (``cpu``, ``cuda``) → the device that it would measure on.
    """

    flags: HostFlags
    devices: Mapping[str, Device]

    def device(self, kind: str) -> Device:
        """The device that it would measure kernels of ``kind`` on.

        Raises:
            EnvironmentFault: it has none.
        """
        if kind not in self.devices:
            raise EnvironmentFault(f"no node of the cluster that could measure has a device of the kind {kind!r}")
        return self.devices[kind]
