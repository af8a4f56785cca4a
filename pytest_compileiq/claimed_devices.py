"""What a claim on several specimens of a device says of them, on disk: strict and bounded, as in ``artifact``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from pytest_compileiq.model import FLEET, LEAST_PROCESSES
from pytest_compileiq.stored import Finite, Stored, Unit


class ClaimedDevice(Stored):
    """What one of a claim's several devices showed, with the two-sided 95 % interval of its own.

    ``unit`` is which specimen of the claim's device model it is: a GPU's UUID, or what a processor's machine is called.
    ``outlier``: its gain is not of a kind with that of the others.
    """

    unit: Unit
    processes: Annotated[int, Field(ge=LEAST_PROCESSES, le=1000)]
    speedup: Finite
    speedup_low: Finite
    speedup_high: Finite
    outlier: bool = False


class StoredFleet(Stored):
    """How the devices of a fleet differ, and what another one would show.

    ``between_sd`` is the standard deviation of the gain between devices: 0.02 is 2 %. Measured as these were, the gain
    of another device lies between ``another_low`` and ``another_high`` with a probability of 95 %.
    """

    between_sd: Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]
    another_low: Finite
    another_high: Finite


def problem_of_devices(devices: Sequence[ClaimedDevice], fleet: StoredFleet | None, *, is_ratio: bool) -> str | None:
    """What is wrong with the devices that a claim names.

    Args:
        is_ratio: whether its gains are ratios, which are above 0.
    """
    units = [device.unit for device in devices]
    if len(units) == 1:
        return "a claim names its devices where there are several, and it names one"
    if units != sorted(set(units)):
        return "the devices of a claim are sorted by name, and each is there once"
    if (fleet is not None) != (len(units) >= FLEET):
        return f"a claim is one for a fleet, and says how its devices differ, from {FLEET} of them on"
    gains = [gain for each in devices for gain in (each.speedup, each.speedup_low, each.speedup_high)]
    gains += [fleet.another_low, fleet.another_high] if fleet else []
    if is_ratio and min(gains, default=1) <= 0:
        return "the gain on one of the devices of a claim is a ratio, and not above 0"
    return None
