"""The gate under noise of known kinds, where the truth is known exactly: 10,000 trials each.

Noise is generated sample by sample in the order of the gate's plan, discarded calls included. Almost no trial of a
null reaches the floor of the speed-up; those that come near it, and only those, are judged by ``rules/gate.py``
itself, so that the count is the gate's own and the time is bearable.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.random import Generator
from scipy.signal import lfilter
from scipy.special import stdtr

from gate.judges import BLOCK, GATE, gate, replay, welch
from gate.rates import Rate, in_full, percent, pooled, select, table, write
from gate.trials import ONE_PROCESS_QUADS, PROCESSES, Floats
from pytest_compileiq.model import Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules.gate import LOOKS, QUADS, SAMPLES

SD = 0.01  # of one sample, relative
DRIFT = 0.01  # over a process, and again over all processes of a trial
STEP, DWELL = 0.05, 50  # how much slower the lower clock is, and for how many samples it lasts
DEALT_SD = {"correlated quads": 0.005, "rare losses": 0.005}  # of what one process deals to one arm
SPREADS = (0.002, 0.004, 0.006, 0.01)  # of the paired log-ratio, between processes
POWER_GAINS = (0.01, 0.02, 0.05, 1.0)
COVERED = "interval of the proven holds the truth"
AT_ONCE = 250
DEFAULT = Thresholds()
NO_FLOOR = replace(DEFAULT, min_speedup=1.0)
Noise = Callable[[Generator, int, int, int], Floats]  # (random, trials, processes, samples) → logs of that shape


def iid(random: Generator, *shape: int) -> Floats:
    return SD * random.standard_normal(shape)


def autoregressive(share: float) -> Noise:
    """Each sample keeps ``share`` of its predecessor's deviation; the stationary deviation is SD."""

    def noise(random: Generator, *shape: int) -> Floats:
        shocks = iid(random, *shape)
        shocks[..., 1:] *= np.sqrt(1 - share**2)
        return lfilter([1], [1, -share], shocks, axis=-1)

    return noise


def drift(random: Generator, trials: int, processes: int, samples: int) -> Floats:
    """Within each process and from process to process, up or down by a coin of the trial."""
    direction = random.choice([-1.0, 1.0], (trials, 1, 1))
    within = np.linspace(0, DRIFT, samples)
    across = np.linspace(0, DRIFT, processes)[:, None]
    return iid(random, trials, processes, samples) + direction * (within + across)


def heavy_tails(random: Generator, *shape: int) -> Floats:
    return SD / np.sqrt(3) * random.standard_t(3, shape)


def frequency_steps(random: Generator, *shape: int) -> Floats:
    """A clock with two speeds that changes now and then."""
    changes = random.random(shape) < 1 / DWELL
    changes[..., 0] = random.random(shape[:-1]) < 0.5
    return iid(random, *shape) + STEP * (np.cumsum(changes, axis=-1) % 2)


NOISES: dict[str, Noise] = {
    "independent": iid,
    "AR(0.5)": autoregressive(0.5),
    "AR(0.9)": autoregressive(0.9),
    "drift of 1 %": drift,
    "heavy tails (t3)": heavy_tails,
    "frequency steps": frequency_steps,
    "correlated quads": iid,
    "rare losses": iid,
}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="gate simulate", description=__doc__)
    parser.add_argument("--home", type=Path, default=Path(".bench"), help="where simulated.csv goes (default: .bench)")
    parser.add_argument("--trials", type=int, default=10_000, help="of each null (default: %(default)s)")
    parser.add_argument("--replays", type=int, default=1_000, help="of each replay and power (default: %(default)s)")
    asked = parser.parse_args(arguments)
    rates = []
    for name in NOISES:
        rates += told(name, [*nulls(name, asked.trials), *replays(name, asked.replays)])
    for sd in SPREADS:
        rates += told(f"{sd:.1%} between processes", power_at(sd, asked.replays))
    write(asked.home / "simulated.csv", rates)
    print(*false_verdicts(rates), "", *powers(rates), sep="\n")


def told(what: str, found: Iterable[Rate]) -> list[Rate]:
    """What was found, printed."""
    print(what)
    rates = []
    for rate in found:
        print(f"    {rate.case}, true gain {rate.gain:.1%}: {rate.judge} {rate}", flush=True)
        rates.append(rate)
    return rates


def false_verdicts(rates: Sequence[Rate]) -> list[str]:
    """What was said of each noise, in per cent but for the exact column."""
    columns = {
        "equal arms": ("equal arms", 0.0, GATE),
        "equal arms, no floor": ("equal arms, no floor", 0.0, GATE),
        "true gain at the floor": ("at the floor", 0.005, GATE),
        "lost 5 % REFUTED": ("replay REFUTED", 0.0, GATE),
        "intact 5 % PROVEN": ("replay PROVEN", 0.05, GATE),
        "intact 5 % REFUTED": ("replay REFUTED", 0.05, GATE),
        f"equal arms: {BLOCK}": ("equal arms", 0.0, BLOCK),
    }
    shown = {"true gain at the floor": in_full}  # the hardest null
    return table(
        ["noise", *columns],
        (
            [
                name,
                *(
                    shown.get(column, percent)(select(rates, condition=name, case=case, gain=gain, judge=judge))
                    for column, (case, gain, judge) in columns.items()
                ),
            ]
            for name in NOISES
        ),
    )


def powers(rates: Sequence[Rate]) -> list[str]:
    """Proven in per cent, samples of an arm, and how often the interval of the proven held the truth in per cent."""

    def cell(sd: float, gain: float) -> str:
        here = select(rates, condition=f"{sd:.1%} between processes", gain=gain)
        found = select(here, case="power")
        return f"{percent(found)}, {pooled(found).samples:.0f}, {percent(select(here, case=COVERED))}" if found else "–"

    return table(
        ["standard deviation between processes", *(f"true gain {gain:.0%}" for gain in POWER_GAINS)],
        ([f"{sd:.1%}", *(cell(sd, gain) for gain in POWER_GAINS)] for sd in SPREADS),
    )


def nulls(name: str, trials: int) -> Iterator[Rate]:
    """False verdicts of one noise: equal arms with and without a floor, a gain just at the floor, and the recipe."""
    cases = [("equal arms", 0.0, DEFAULT), ("equal arms, no floor", 0.0, NO_FLOOR), ("at the floor", 0.005, DEFAULT)]
    for case, (what, gain, thresholds) in enumerate(cases):
        said = 0
        for number, baseline, tuned in evidences(name, gain, trials, seed=case):
            near = np.flatnonzero(near_the_floor(baseline, tuned, thresholds))
            said += sum(gate(baseline[k], tuned[k], thresholds, seed=number + int(k)).proven for k in near)
        yield Rate(name, what, gain, GATE, said, trials)
    said = sum(int(welch(*arms).sum()) for arms in blocks(name, trials))
    yield Rate(name, "equal arms", 0.0, BLOCK, said, trials)


def replays(name: str, trials: int) -> Iterator[Rate]:
    """A committed gain of 5 %: intact it is to pass and never to be refuted, lost it is to be refuted."""
    for gain in (0.05, 0.0):
        verdicts = [
            replay(baseline[k], tuned[k], 1.05).decision.verdict
            for _, baseline, tuned in evidences(name, gain, trials, seed=9)
            for k in range(len(baseline))
        ]
        for verdict in (Verdict.PROVEN, Verdict.REFUTED):
            yield Rate(name, f"replay {verdict}", gain, GATE, verdicts.count(verdict), trials)


def power_at(sd: float, trials: int) -> Iterator[Rate]:
    """How often a gain is found where the paired log-ratio varies by ``sd`` between processes, noise and all; and how
    often the 95 % interval of what was proven holds the truth, since a proof is an occasion to be too high."""
    random = np.random.default_rng(int(1e6 * sd))
    for gain in POWER_GAINS:
        proven, samples = [], 0
        for number in range(trials):
            # Half of the variance is dealt by the process, half is noise of its 4 quads of 2 slots an arm.
            slot = sd * np.sqrt(0.5 * QUADS) * random.standard_normal((2, PROCESSES, QUADS, 2))
            dealt = sd * np.sqrt(0.5) * random.standard_normal((PROCESSES, 1, 1))
            found = gate(np.exp(slot[0]), np.exp(slot[1] + dealt) / (1 + gain), DEFAULT, seed=number)
            samples += found.processes * QUADS * 2 * SAMPLES
            if found.proven:
                proven.append(found.decision)
        condition = f"{sd:.1%} between processes"
        yield Rate(condition, "power", gain, GATE, len(proven), trials, samples / trials)
        if proven:
            covered = sum(one.speedup_low <= 1 + gain <= one.speedup_high for one in proven)
            yield Rate(condition, COVERED, gain, GATE, covered, len(proven))


def evidences(name: str, gain: float, trials: int, *, seed: int) -> Iterator[tuple[int, Floats, Floats]]:
    """Number of the first trial, baseline and tuned slot values of shape (trials, PROCESSES, QUADS, 2), in portions."""
    random = np.random.default_rng([seed, *name.encode()])
    for first in range(0, trials, AT_ONCE):
        count = min(AT_ONCE, trials - first)
        logs = NOISES[name](random, count, PROCESSES, QUADS * 4 * (1 + SAMPLES))
        values = np.median(logs.reshape(count, PROCESSES, QUADS, 4, 1 + SAMPLES)[..., 1:], axis=-1)
        outer, inner = values[..., [0, 3]], values[..., [1, 2]]
        abba = random.random((count, PROCESSES, QUADS, 1)) < 0.5
        baseline, tuned = np.where(abba, outer, inner), np.where(abba, inner, outer)
        yield first, np.exp(baseline), np.exp(tuned + dealt(name, random, count, PROCESSES)[..., None]) / (1 + gain)


def blocks(name: str, trials: int) -> Iterator[tuple[Floats, Floats]]:
    """Samples of one process, all of the baseline and then all of the tuned, shape (trials, n) each, in portions."""
    random = np.random.default_rng([99, *name.encode()])
    n = ONE_PROCESS_QUADS * 2 * SAMPLES
    for first in range(0, trials, AT_ONCE):
        count = min(AT_ONCE, trials - first)
        logs = NOISES[name](random, count, 1, 2 * n)[:, 0]
        yield np.exp(logs[:, :n]), np.exp(logs[:, n:] + dealt(name, random, count, 1)[:, 0])


def dealt(name: str, random: Generator, trials: int, processes: int) -> Floats:
    """What each process deals to the tuned arm, shape (trials, processes, 1), of mean 0. Of the normal one quads of a
    process correlate by about 0.45; of the skewed one most processes gain and a few lose much."""
    shape = (trials, processes, 1)
    draws = random.standard_exponential(shape) - 1 if name == "rare losses" else random.standard_normal(shape)
    return DEALT_SD.get(name, 0.0) * draws


def near_the_floor(baseline: Floats, tuned: Floats, thresholds: Thresholds) -> np.ndarray:
    """Trials whose speed-up may be surely above the floor at some look: PROVEN needs that, whatever else it needs."""
    ratios = (np.log(baseline).mean(axis=3) - np.log(tuned).mean(axis=3)).mean(axis=2)
    near = np.zeros(len(ratios), bool)
    for processes in LOOKS:
        seen = ratios[:, :processes]
        error = seen.std(axis=1, ddof=1) / np.sqrt(processes)
        statistic = (seen.mean(axis=1) - np.log(thresholds.min_speedup)) / error
        near |= stdtr(processes - 1, -statistic) <= 1.01 * thresholds.alpha / len(LOOKS)
    return near
