"""Claims over several devices, simulated, where the truth is known: false ones, power, outliers, predictions.

    python bench/fleet.py [--trials 2000] [--seed 0] [--results FILE]

Devices differ in speed (sd 8 %), and the tuned arm's gain differs between them (the interaction: sd 0, 0.5 or 2 %); it
differs between processes of one (sd 0.7 %), samples are heavy-tailed (Student's t on 4 degrees of freedom, sd about
1 %), and each block drifts. Every proof goes through the gate's own looks. With 2 to 4 devices it is the mean gain of
these very devices that is none, or just at the floor; from 5 on it is the mean of the population that they are drawn
from. With ``--results`` what is finished is appended to FILE, and the same command goes on behind it.
"""

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator

from machine import describe
from pytest_compileiq.model import FLEET, Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules.evidence import Evidence
from pytest_compileiq.rules.fleet import another, between_sd, means_of, outliers, p_above
from pytest_compileiq.rules.gate import LOOKS, QUADS, judge_gain, looks_of
from pytest_compileiq.rules.stats import binomial_interval

DEVICES = (2, 3, 4, 5, 8)
INTERACTIONS = (0.0, 0.005, 0.02)
FLOOR = 0.005
GAINS = (0.0, FLOOR, 0.02, 0.05)
SPEED_SD, PROCESS_SD, ARM_SD, SAMPLE_SCALE, DRIFT_SD = 0.08, 0.01, 0.007, 0.007, 0.01
STRANGE = 0.05  # by how much the one strange device of some trials gains less than the others
COLUMNS = (
    "devices", "interaction", "gain", "trials", "claimed", "refused", "an outlier named", "the strange one",
    "another one shows", "its true gain", "by Higgins et al.",
)  # fmt: skip
LEVEL = Thresholds().alpha / len(LOOKS)


@dataclass(frozen=True)
class Trial:
    """One proof.

    Attributes:
        proven: at which look it was; 0 at none.
        refused: whether it is refused after all looks, as for a device that is surely worse.
        outliers: how many devices are called one then, and whether the strange one is.
        predicted: whether another device's true gain lies in the prediction interval of the first look, and
            (``_measured``) whether what it shows does.
    """

    proven: int
    refused: bool
    outliers: int
    strange_found: bool
    predicted: bool
    predicted_measured: bool
    predicted_by_higgins: bool


def simulate(random: Generator, devices: int, interaction: float, gain: float, *, strange: bool) -> Trial:
    """Draw some devices and another one, measure them, and let the gate look."""
    effects = random.normal(0, interaction, devices + 1)
    if devices < FLEET:
        effects[:devices] -= effects[:devices].mean()
    if strange:
        effects[devices - 1] -= STRANGE
    effects += math.log1p(gain)
    looks = looks_of(devices)
    whole = measured(random, effects[:devices], looks[-1])
    proven = 0
    for number, processes in enumerate(looks, start=1):
        evidence = Evidence(whole.baseline[:processes], whole.tuned[:processes], units=whole.units[:processes])
        if not proven and is_proven(evidence, number):
            proven = number
    few = Evidence(whole.baseline[: looks[0]], whole.tuned[: looks[0]], units=whole.units[: looks[0]]).devices
    alike = measured(random, effects[devices:], looks[0] // devices).by_process.mean()
    named = outliers(whole.devices)
    low, high = another(few).low, another(few).high
    reach = higgins_reach(few)
    middle = (low + high) / 2
    return Trial(
        proven, judge_gain(whole, Thresholds(), level=LEVEL, seed=1).verdict is Verdict.REFUTED,
        len(named), f"device{devices - 1}" in named,
        low <= effects[-1] <= high, low <= alike <= high, abs(effects[-1] - middle) <= reach,
    )  # fmt: skip


def is_proven(evidence: Evidence, number: int) -> bool:
    """Whether the gate says so; it is asked where one of its tests does, since all of them have to."""
    thresholds = Thresholds()
    if p_above(evidence.devices, math.log(thresholds.min_speedup)) > LEVEL:
        return False
    return judge_gain(evidence, thresholds, level=LEVEL, seed=number).verdict is Verdict.PROVEN


def measured(random: Generator, effects: np.ndarray, processes: int) -> Evidence:
    """Blocks of ``processes`` processes in turn over devices whose log gains are ``effects``."""
    device = np.arange(processes) % len(effects)
    level = random.normal(0, SPEED_SD, len(effects))[device] + random.normal(0, PROCESS_SD, processes)
    drift = random.normal(0, DRIFT_SD, (processes, 1, 1)) * np.linspace(0, 1, QUADS * 4).reshape(1, QUADS, 4)
    noise = SAMPLE_SCALE * random.standard_t(4, (processes, QUADS, 4))
    logs = level[:, None, None] + drift + noise
    abba = random.random((processes, QUADS, 1)) < 0.5
    outer, inner = logs[..., [0, 3]], logs[..., [1, 2]]
    baseline, tuned = np.where(abba, outer, inner), np.where(abba, inner, outer)
    gain = effects[device] + random.normal(0, ARM_SD, processes)
    units = tuple(f"device{number}" for number in device) if len(effects) > 1 else ()
    return Evidence(np.exp(baseline), np.exp(tuned - gain[:, None, None]), units=units)


def higgins_reach(devices: dict[str, np.ndarray]) -> float:
    """Half of the interval of Higgins, Thompson and Spiegelhalter (2009): t on D - 2, with processes taken out of s."""
    from scipy.special import stdtrit

    means = means_of(devices)
    if len(means) < 3:
        return math.inf
    return float(-stdtrit(len(means) - 2, 0.025)) * math.sqrt(
        between_sd(devices) ** 2 + float(means.var(ddof=1)) / len(means)
    )


def rate(count: int, trials: int) -> str:
    low, high = binomial_interval(count, trials)
    return f"{count / trials:.2%} ({low:.2%} to {high:.2%})"


def cells(trials: int) -> Iterator[tuple[int, float, float, bool, int]]:
    """Devices, interaction, gain, whether one of them is strange, and trials."""
    for devices in DEVICES:
        for interaction in INTERACTIONS:
            for gain in GAINS:
                yield devices, interaction, gain, False, trials if gain <= FLOOR else trials // 4
            yield devices, interaction, 0.05, True, trials // 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=2000, help="of each null; a quarter of them of each true gain")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    print(f"{describe()}\n")
    done = {}
    if options.results and options.results.exists():
        done = dict(json.loads(line) for line in options.results.read_text(encoding="utf-8").splitlines())
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    for devices, interaction, gain, strange, trials in cells(options.trials):
        key = f"{devices} {interaction} {gain} {strange} {trials}"
        if key not in done:
            random = np.random.default_rng([options.seed, devices, int(interaction * 1e4), int(gain * 1e4), strange])
            told = [simulate(random, devices, interaction, gain, strange=strange) for _ in range(trials)]
            done[key] = {name: sum(bool(getattr(trial, name)) for trial in told) for name in vars(told[0])}
            if options.results:
                with options.results.open("a", encoding="utf-8") as file:
                    file.write(f"{json.dumps([key, done[key]])}\n")
        rates = {name: rate(count, trials) for name, count in done[key].items()}
        predicted = devices >= FLEET and not strange
        print(
            f"| {devices} | {interaction:.1%} | {gain:.1%}{', one strange' if strange else ''} | {trials} "
            f"| {rates['proven']} | {rates['refused']} | {rates['outliers'] if devices > 2 else ''} "
            f"| {rates['strange_found'] if strange and devices > 2 else ''} "
            f"| {rates['predicted_measured'] if predicted else ''} | {rates['predicted'] if predicted else ''} "
            f"| {rates['predicted_by_higgins'] if predicted else ''} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
