"""What a gain on several devices is worth: on these very ones, or for the fleet that they are a sample of.

All values are differences on the analysis' axis, one for each process, device by device; more is better. Processes are
nested in devices: those of one device say nothing of another, and however many there are, they add no device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import scipy

from pytest_compileiq.claim import ClaimedDevice, FleetTable
from pytest_compileiq.model import FLEET, LEAST_PROCESSES
from pytest_compileiq.rules.stats import (
    Floats,
    Interval,
    paired_interval,
    paired_p,
    processes_for,
    stratified_interval,
    stratified_p,
    t_quantile,
)
from pytest_compileiq.rules.words import unit_text
from pytest_compileiq.spelling import quantity

WORSE_TAIL = 0.05
OUTLIER_LEVEL = 0.05  # that any device is called one, where none is
Devices = Mapping[str, Floats]


def is_fleet(devices: Devices) -> bool:
    """Whether there are enough of them to speak of others."""
    return len(devices) >= FLEET


def gain_interval(devices: Devices, tail: float) -> Interval:
    """Student's interval of the gain, each bound one-sided at ``tail``.

    Of one device over its processes; of a few named ones of the mean of their means, by what processes of each vary;
    of a fleet over the devices' means.
    """
    if is_fleet(devices):
        return paired_interval(means_of(devices), tail)
    groups = list(devices.values())
    return paired_interval(groups[0], tail) if len(groups) == 1 else stratified_interval(groups, tail)


def p_above(devices: Devices, floor: float) -> float:
    """One-sided p-value that the gain lies above ``floor``, by the test that belongs to ``gain_interval``."""
    if is_fleet(devices):
        return paired_p(means_of(devices), floor)
    groups = list(devices.values())
    return paired_p(groups[0], floor) if len(groups) == 1 else stratified_p(groups, floor)


def means_of(devices: Devices) -> Floats:
    """One mean a device, shape (devices,)."""
    return np.array([differences.mean() for differences in devices.values()])


def surely_below(devices: Devices, floor: float) -> tuple[str, ...]:
    """The devices among several whose own upper 95 % bound lies below ``floor``."""
    if len(devices) == 1:
        return ()
    # It is a veto, which proves nothing, so that no correction for their number makes it milder.
    return tuple(unit for unit, own in devices.items() if paired_p(-own, -floor) <= WORSE_TAIL)


def outliers(devices: Devices) -> tuple[str, ...]:
    """The devices whose mean is not of a kind with the others'; none among fewer than 3.

    Externally studentised residuals, each device against the mean and the spread of all others, on D - 2 degrees of
    freedom (Belsley, Kuh and Welsch, Regression Diagnostics, 1980, section 2.1), two-sided with Bonferroni's correction
    for the D of them (Cook and Weisberg, Residuals and Influence in Regression, 1982, section 2.2.2). Where processes
    of a device vary more than those of the others, the excess is part of its error (as are known variances in
    Viechtbauer and Cheung, Research Synthesis Methods 1, 2010), or a noisy device would be taken for a strange one.
    """
    count, means, errors = len(devices), means_of(devices), _squared_errors(devices)
    if count < 3:
        return ()
    named = []
    for place, unit in enumerate(devices):
        others = np.arange(count) != place
        excess = max(0.0, float(errors[place] - errors[others].mean()))
        error = math.sqrt(means[others].var(ddof=1) * count / (count - 1) + excess)
        distance = abs(float(means[place] - means[others].mean()))
        p_value = 2 * float(scipy.special.stdtr(count - 2, -distance / error)) if error > 0 else float(distance <= 0)
        if p_value * count <= OUTLIER_LEVEL:
            named.append(unit)
    return tuple(named)


def another(devices: Devices) -> Interval:
    """The prediction interval of what another device of the fleet would show, if it were measured as these were.

    Student's, on D - 1 degrees of freedom: mean ± t · s · √(1 + 1/D), with s between the devices' means. It is exact
    for what is measured and wider than needed for the device's true gain. The interval of Higgins, Thompson and
    Spiegelhalter (J. R. Stat. Soc. A 172, 2009), which takes the noise of processes out of s, holds the true gain in 88
    to 97 % of fleets instead of 95 (``bench/fleet.py``), least often where this noise is like the difference between
    devices, as it is here.
    """
    means = means_of(devices)
    reach = t_quantile(means.size - 1, 0.025) * float(means.std(ddof=1)) * math.sqrt(1 + 1 / means.size)
    middle = float(means.mean())
    return Interval(middle, middle - reach, middle + reach)


def between_sd(devices: Devices) -> float:
    """The standard deviation of the gain between devices, without what processes add to it; at least 0.

    Cochran's estimate (Biometrics 10, 1954), by moments: the variance of the means less the mean of their errors'.
    """
    return math.sqrt(max(0.0, float(means_of(devices).var(ddof=1) - _squared_errors(devices).mean())))


def within_sd(devices: Devices) -> float:
    """The standard deviation between processes of one device, over all devices."""
    squares = sum(float(((own - own.mean()) ** 2).sum()) for own in devices.values())
    return math.sqrt(squares / sum(own.size - 1 for own in devices.values()))


def what_would_decide(devices: Devices, floor: float, level: float) -> str | None:
    """How many devices or processes of this kind would put the gain above ``floor``; None where no number would."""
    means = means_of(devices)
    fleet = is_fleet(devices)
    have = means.size if fleet else sum(own.size for own in devices.values())
    deviation = float(means.std(ddof=1)) if fleet else within_sd(devices)
    needed = processes_for(float(means.mean()), floor, deviation, level)
    return None if needed is None else f"{max(needed, have + 1)} {'devices' if fleet else 'processes'}"


def on_devices(devices: Devices, gain: Callable[[float], float]) -> tuple[ClaimedDevice, ...]:
    """What each of several devices showed; nothing of one."""
    if len(devices) == 1:
        return ()
    strange = outliers(devices)
    shown = [(unit, own.size, paired_interval(own, 0.025)) for unit, own in devices.items()]
    return tuple(
        ClaimedDevice.of({
            "unit": unit,
            "processes": processes,
            "speedup": gain(interval.estimate),
            "speedup_low": gain(interval.low),
            "speedup_high": gain(interval.high),
            "outlier": unit in strange,
        })
        for unit, processes, interval in shown
    )  # fmt: skip


def fleet_of(devices: Devices, gain: Callable[[float], float]) -> FleetTable | None:
    """How the devices of a fleet differ; None where they are too few for one."""
    if not is_fleet(devices):
        return None
    differ, predicted = gain(between_sd(devices)) - 1, another(devices)
    return FleetTable.of({
        "between_sd": differ,
        "another_low": gain(predicted.low),
        "another_high": gain(predicted.high),
    })  # fmt: skip


def why_too_few(devices: Devices) -> str | None:
    """Why several devices do not count as such, or None where they do."""
    if len(devices) == 1:
        return None
    if "" in devices:
        return "which device some processes ran on is not known: set ACF_MACHINE to a name of its own on each machine"
    for unit, own in devices.items():
        if own.size < LEAST_PROCESSES:
            gave = f"{quantity(own.size, 'process')} on {unit_text(unit)} gave samples"
            return f"{gave}, and among several devices each needs {LEAST_PROCESSES}"
    return None


def _squared_errors(devices: Devices) -> Floats:
    """The squared standard error of each device's mean, shape (devices,)."""
    return np.array([own.var(ddof=1) / own.size for own in devices.values()])
