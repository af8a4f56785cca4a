"""The recorded trials, each judged by this package's gate and by four recipes in use: how often the tuned arm is called
faster where the arms are equal and where a gain is real, after how many samples and seconds. Tables are Markdown."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from gate.judges import BLOCK, GATE, INTERLEAVED, JUDGES, RECIPES, Gated, gate, replay, slots, welch
from gate.rates import Rate, in_full, percent, pooled, select, table, write
from gate.trials import GAINS, KERNELS, Trial, recorded
from pytest_compileiq.model import Thresholds
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.rules.evidence import Evidence
from pytest_compileiq.rules.gate import QUADS, SAMPLES

DEFAULT = Thresholds()
A_PROCESS = QUADS * 2 * SAMPLES  # samples of one arm
FEWER = (10, 20, 40, 80, 160)  # samples of one arm at which the recipe in blocks is asked too
KEPT = 0.05  # the gain that a replay takes for committed
CONDITIONS = ("quiet", "loaded")
REFUTED = "this gate: REFUTED"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="gate judge", description=__doc__)
    parser.add_argument("--home", type=Path, default=Path(".bench"), help="where the trials lie (default: .bench)")
    home = parser.parse_args(arguments).home
    rates = [rate for trials in cells(home) for rate in judged(trials)]
    if not rates:
        raise SystemExit(f"{home} holds no trial: python bench/gate record --home {home}")
    write(home / "judged.csv", rates)
    print((home / "machine.txt").read_text(encoding="utf-8"))
    by_condition = [gains(rates, condition) for condition in CONDITIONS]
    for lines in (equal_arms(rates), *by_condition, verdicts(rates), recipe(rates)):
        print(*lines, "", sep="\n")
    print(*replays(rates), *noise(home), sep="\n")


def cells(home: Path) -> Iterator[list[Trial]]:
    """The trials of one condition at a time."""
    for _, trials in groupby(recorded(home), key=lambda trial: trial.cell):
        yield list(trials)


def judged(trials: Sequence[Trial]) -> Iterator[Rate]:
    """All judges on the trials of one cell."""
    cell = trials[0].cell

    def rate(judge: str, said: int, samples: float = 0.0, seconds: float = 0.0) -> Rate:
        return Rate(CONDITIONS[cell.loaded], cell.kernel, cell.gain, judge, said, len(trials), samples, seconds)

    arms = [slots(trial.gate) for trial in trials]
    found = [gate(*both, DEFAULT, seed=trial.number) for both, trial in zip(arms, trials, strict=True)]
    spent = [one.processes for one in found]
    seconds = [float(trial.gate_seconds[:processes].sum()) for trial, processes in zip(trials, spent, strict=True)]
    yield rate(GATE, proven(found), float(np.mean(spent)) * A_PROCESS, float(np.mean(seconds)))
    yield rate(REFUTED, sum(one.decision.verdict is Verdict.REFUTED for one in found))

    block = np.stack([trial.block for trial in trials], axis=1).astype(np.float64)
    taken = float(np.mean([trial.block_seconds for trial in trials]))
    for name, recipe in RECIPES.items():
        yield rate(name, int(recipe(*block).sum()), block.shape[-1], taken)
    for fewer in FEWER:
        yield rate(f"{BLOCK}, {fewer}", int(welch(block[0][:, -fewer:], block[1][:, :fewer]).sum()), fewer)
    mixed = np.stack([trial.interleaved for trial in trials], axis=1).astype(np.float64)
    taken = float(np.mean([trial.interleaved_seconds for trial in trials]))
    yield rate(INTERLEAVED, int(welch(*mixed).sum()), mixed.shape[-1], taken)

    replayed = [replay(*both, 1 + KEPT).decision.verdict for both in arms]
    for verdict in (Verdict.PROVEN, Verdict.REFUTED):
        yield rate(f"replay {verdict}", replayed.count(verdict))


def proven(found: Iterable[Gated]) -> int:
    return sum(one.proven for one in found)


def equal_arms(rates: Sequence[Rate]) -> list[str]:
    """How often equal arms are called faster, in per cent; the last column exact."""
    null = select(rates, gain=0.0)
    return table(
        ["judge", *KERNELS, *CONDITIONS, "all, with the exact 95 % interval"],
        (
            [
                judge,
                *(percent(select(null, judge=judge, case=kernel)) for kernel in KERNELS),
                *(percent(select(null, judge=judge, condition=condition)) for condition in CONDITIONS),
                in_full(select(null, judge=judge)),
            ]
            for judge in (*JUDGES, REFUTED)
        ),
    )


def gains(rates: Sequence[Rate], condition: str) -> list[str]:
    """How often a true gain is called faster, in per cent."""
    here = select(rates, condition=condition)
    return table(
        [f"{condition}: judge", *(f"{gain:.1%}" for gain in GAINS[1:])],
        ([judge, *(in_full(select(here, judge=judge, gain=gain)) for gain in GAINS[1:])] for judge in JUDGES),
    )


def verdicts(rates: Sequence[Rate]) -> list[str]:
    """What the gate's verdict costs, by kernel: found, samples of an arm, seconds of processes that do nothing else."""
    mine = select(rates, judge=GATE)

    def cost(kernel: str, gain: float) -> str:
        chosen = select(mine, case=kernel, gain=gain)
        if not chosen:
            return "–"
        one = pooled(chosen)
        return f"{100 * one.share:.0f} %, {one.samples:.0f}, {one.seconds:.2f} s"

    return table(
        ["true gain", *KERNELS], ([f"{gain:.1%}", *(cost(kernel, gain) for kernel in KERNELS)] for gain in GAINS)
    )


def recipe(rates: Sequence[Rate]) -> list[str]:
    """The recipe in blocks on fewer samples: equal arms and a true 5 % called faster, in per cent."""

    def said(name: str, gain: float) -> list[str]:
        return [percent(select(rates, judge=name, gain=gain, case=kernel)) for kernel in KERNELS]

    names = [*(f"{BLOCK}, {fewer}" for fewer in FEWER), BLOCK]
    return table(
        ["samples of an arm", *(f"equal, {kernel}" for kernel in KERNELS), *(f"5 %, {kernel}" for kernel in KERNELS)],
        ([name.removeprefix(f"{BLOCK}, "), *said(name, 0.0), *said(name, 0.05)] for name in names),
    )


def replays(rates: Sequence[Rate]) -> Iterator[str]:
    for gain, what in ((0.0, "lost"), (KEPT, "intact")):
        for verdict in (Verdict.PROVEN, Verdict.REFUTED):
            said = select(rates, judge=f"replay {verdict}", gain=gain)
            yield f"a committed gain of {KEPT:.0%}, {what}: {verdict} {in_full(said)}"


def noise(home: Path) -> Iterator[str]:
    """How much the paired log-ratio varies between the processes of a trial, and how loaded the machine was."""
    for trials in cells(home):
        cell = trials[0].cell
        if not cell.gain:
            spreads = [Evidence(*slots(trial.gate)).by_process.std(ddof=1) for trial in trials]
            low, middle, high = np.percentile(spreads, [25, 50, 75])
            load = np.median([trial.load for trial in trials])
            yield (
                f"{CONDITIONS[cell.loaded]} {cell.kernel}: standard deviation between processes {middle:.2%} "
                f"({low:.2%} to {high:.2%}), load average {load:.1f}"
            )
