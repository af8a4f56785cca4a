"""The figures of docs/explanation/gate.md, from what the judge and the simulation wrote. Needs matplotlib."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from gate.judge import CONDITIONS
from gate.judges import BLOCK, GATE, JUDGES
from gate.rates import Rate, pooled, read, select
from gate.simulate import NOISES
from gate.trials import GAINS

PAGES = Path(__file__).parents[2] / "docs" / "explanation"
ALPHA = 0.01
COLOURS = dict(zip(JUDGES, ("#0072b2", "#d55e00", "#e69f00", "#009e73", "#cc79a7"), strict=True))  # Okabe & Ito
MARKERS = dict(zip(JUDGES, "osD^v", strict=True))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="gate plot", description=__doc__)
    parser.add_argument("--home", type=Path, default=Path(".bench"), help="where the tables lie (default: .bench)")
    parser.add_argument("--into", type=Path, default=PAGES, help="where the figures go (default: docs/explanation)")
    asked = parser.parse_args(arguments)
    matplotlib.use("svg")
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "gate", "font.family": "sans-serif", "font.size": 9})
    asked.into.mkdir(parents=True, exist_ok=True)
    judged, simulated = read(asked.home / "judged.csv"), read(asked.home / "simulated.csv")
    for name, figure in (
        ("gate-equal-arms", equal_arms(judged)),
        ("gate-noise", noise(simulated)),
        ("gate-power", power(judged)),
    ):
        figure.savefig(asked.into / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
        print(asked.into / f"{name}.svg")


def equal_arms(judged: Sequence[Rate]) -> plt.Figure:
    """Real trials of equal arms: how often each judge says "faster"."""
    figure, axes = plt.subplots(1, 2, figsize=(7, 1.9), sharey=True, sharex=True)
    for axis, condition in zip(axes, CONDITIONS, strict=True):
        found = {judge: select(judged, gain=0.0, condition=condition, judge=judge) for judge in JUDGES}
        shares(axis, {judge: pooled(rates) for judge, rates in found.items() if rates}, COLOURS)
        axis.set_title(condition)
    figure.supxlabel("equal arms called faster, %", y=-0.1, fontsize=9)
    return figure


def noise(simulated: Sequence[Rate]) -> plt.Figure:
    """Simulated nulls: this gate where the gain is just its floor, and the recipe in blocks on equal arms."""
    figure, axes = plt.subplots(1, 2, figsize=(7, 2.4), sharey=True)
    for axis, what, judge in zip(axes, ("at the floor", "equal arms"), (GATE, BLOCK), strict=True):
        found = {rate.condition: rate for rate in select(simulated, case=what, judge=judge)}
        shares(axis, {name: found[name] for name in NOISES}, dict.fromkeys(NOISES, COLOURS[judge]))
        axis.set_title(f"{judge}, {what}")
        axis.set_xlim(left=0)
    axes[0].set_xlim(0, 5)
    figure.supxlabel('called "faster", %', y=-0.06, fontsize=9)
    return figure


def shares(axis: Axes, rates: Mapping[str, Rate], colours: Mapping[str, str]) -> None:
    """One line a name: the share in per cent with its exact interval, and alpha."""
    axis.axvline(100 * ALPHA, color="#888888", linewidth=0.8, linestyle=":")
    for place, (name, rate) in enumerate(rates.items()):
        low, high = rate.interval
        axis.plot([100 * low, 100 * high], [place, place], color=colours[name], linewidth=2, solid_capstyle="butt")
        axis.plot(100 * rate.share, place, "o", color=colours[name], markersize=5)
    axis.set_yticks(range(len(rates)), list(rates))
    axis.set_ylim(len(rates) - 0.5, -0.5)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def power(judged: Sequence[Rate]) -> plt.Figure:
    """Real trials of true gains: how often each judge finds them, with its exact interval."""
    figure, axes = plt.subplots(1, 2, figsize=(7, 2.8), sharey=True)
    places = np.arange(len(GAINS))
    for axis, condition in zip(axes, CONDITIONS, strict=True):
        for nudge, judge in zip(np.linspace(-0.16, 0.16, len(JUDGES)), JUDGES, strict=True):
            found = [select(judged, gain=gain, condition=condition, judge=judge) for gain in GAINS]
            kept = [(place, pooled(rates)) for place, rates in zip(places, found, strict=True) if rates]
            at = [place + nudge for place, _ in kept]
            y = [100 * rate.share for _, rate in kept]
            reach = np.abs(100 * np.array([rate.interval for _, rate in kept]).reshape(-1, 2).T - y)
            style = {"color": COLOURS[judge], "marker": MARKERS[judge], "markersize": 4, "linewidth": 1}
            axis.errorbar(at, y, reach, label=judge, elinewidth=0.8, **style)
        axis.set_xticks(places, ["equal", *(f"{100 * gain:g} %" for gain in GAINS[1:])])
        axis.set_title(condition)
        axis.set_xlabel("true gain")
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[0].set_ylabel('called "faster", %')
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="lower center", ncols=3, frameon=False, bbox_to_anchor=(0.5, -0.2)
    )
    return figure
