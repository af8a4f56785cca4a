"""The race as a markdown table and a plot."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from scipy.stats import mannwhitneyu

from machine import describe
from race_peers import LABELS

Races = dict[str, dict[str, list[list[float]]]]  # objective → engine → best so far, for each seed

BEGIN, END = "<!-- from here on written by bench/engines.py -->", "<!-- to here -->"
OURS = "ga"
AT = (50, 100, 200, 400)
SIGNIFICANT = 0.05
COLUMNS = 2


def write(
    page: Path,
    races: Races,
    baselines: Mapping[str, float],
    costs: Mapping[str, Sequence[float]],
    long: Mapping[str, float],
    evaluations: int,
) -> None:
    """Replace what lies between the page's marks, and the plot beside the page."""
    raced = {name: engines for name, engines in races.items() if engines[OURS]}
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    written = "\n".join([
        *_header(raced, evaluations), *_summary(raced, evaluations), *_tables(raced, baselines, evaluations),
        *_costs(costs), *_long(long), f"![Median best so far, by engine]({page.stem}.svg)",
    ])  # fmt: skip
    page.write_text(f"{before}{BEGIN}\n\n{written}\n\n{END}{after}", encoding="utf-8")
    plot(page.with_suffix(".svg"), raced, baselines)
    print(written)


def _header(raced: Races, evaluations: int) -> Iterator[str]:
    counts = {len(engines[OURS]) for engines in raced.values()}
    seeds = f"{counts.pop()} seeds" if len(counts) == 1 else f"{min(counts)} to {max(counts)} seeds"
    yield f"Machine: {describe()}; one core, one thread, at low priority."
    yield f"{evaluations} evaluations a race, {seeds} of every objective."
    yield ""


def _summary(raced: Races, evaluations: int) -> Iterator[str]:
    """Where ours is first, and where it loses."""
    for at in _moments(evaluations):
        first = sum(_middle(engines[OURS], at) <= min(_middle(races, at) for races in engines.values())
                    for engines in raced.values())  # fmt: skip
        yield f"- After {at} evaluations ours has the best median, ties counted, on {first} of {len(raced)} objectives."
        for name, engines in raced.items():
            others = {LABELS[engine]: (races, _p(engines, engine, at)) for engine, races in engines.items()}
            for engine, (races, p) in others.items():
                if p < SIGNIFICANT and _rank_sum(races, engines[OURS], at) < 0:
                    yield f"  It is significantly behind {engine} on {name} (p = {p:.2g})."
                elif _middle(races, at) < _middle(engines[OURS], at):
                    yield f"  {engine}'s median is better on {name} (p = {p:.2g})."
    yield ""


def _tables(raced: Races, baselines: Mapping[str, float], evaluations: int) -> Iterator[str]:
    moments = _moments(evaluations)
    for name, engines in raced.items():
        best = min(values[-1] for races in engines.values() for values in races)
        yield f"**{name}** (baseline {baselines[name]:.4g}, best known {best:.4g})"
        yield ""
        yield f"| engine | {' | '.join(f'{at} evaluations' for at in moments)} |"
        yield f"|---|{'---|' * len(moments)}"
        for engine, races in sorted(engines.items(), key=lambda entry: _middle(entry[1], moments[-1])):
            cells = []
            for at in moments:
                middle = _middle(races, at)
                share = 100 * (baselines[name] - middle) / max(baselines[name] - best, 1e-12)
                against = "" if engine == OURS else f", p = {_p(engines, engine, at):.2g}"
                cells.append(f"{middle:.4g} ({share:.0f} %{against})")
            yield f"| {LABELS[engine]} | {' | '.join(cells)} |"
        yield ""


def _costs(costs: Mapping[str, Sequence[float]]) -> Iterator[str]:
    yield "**Own cost of one ask and tell**, mean processor time over 200 evaluations, ms"
    yield ""
    yield "| engine | 30 knobs | 100 knobs | 300 knobs |"
    yield "|---|---|---|---|"
    for engine, by_size in costs.items():
        yield f"| {LABELS[engine]} | {' | '.join(f'{milliseconds:.1f}' for milliseconds in by_size)} |"
    yield ""


def _long(long: Mapping[str, float]) -> Iterator[str]:
    evaluations, times = f"{long['evaluations']:,}", long["slowest_ms"] / long["at_400_ms"]
    yield (
        f"**{evaluations} evaluations** of ours at 100 knobs, asked for four at a time: an ask and tell takes "
        f"{long['at_400_ms']:.0f} ms at 400 evaluations and {long['later_ms']:.0f} ms from there on (medians), the "
        f"slowest {long['slowest_ms']:.0f} ms, {times:.1f} times as much. The process holds {long['memory_mb']:.0f} MB "
        f"at 400 evaluations, and {long['memory_grown_mb']:+.0f} MB at the end."
    )
    yield ""


def _moments(evaluations: int) -> list[int]:
    return [at for at in AT if at <= evaluations]


def _middle(races: Sequence[Sequence[float]], at: int) -> float:
    return statistics.median(values[at - 1] for values in races)


def _p(engines: Mapping[str, Sequence[Sequence[float]]], engine: str, at: int) -> float:
    """Mann-Whitney, two-sided, against ours."""
    ours, theirs = ([values[at - 1] for values in engines[name]] for name in (OURS, engine))
    return float(mannwhitneyu(ours, theirs, alternative="two-sided").pvalue)


def _rank_sum(theirs: Sequence[Sequence[float]], ours: Sequence[Sequence[float]], at: int) -> int:
    """How much oftener a race of theirs is above one of ours than below: negative where theirs are the better ones."""
    pairs = [(their[at - 1], our[at - 1]) for their in theirs for our in ours]
    return sum((their > our) - (their < our) for their, our in pairs)


def plot(path: Path, raced: Races, baselines: Mapping[str, float]) -> None:
    """Median best so far, one panel an objective; needs the extra ``report``."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "engines"
    from matplotlib import pyplot

    rows = math.ceil(len(raced) / COLUMNS)
    figure, axes = pyplot.subplots(
        rows, COLUMNS, figsize=(4.5 * COLUMNS, 3.5 * rows), layout="constrained", squeeze=False
    )
    for panel, (name, engines) in zip(axes.flat, raced.items(), strict=False):
        for engine, races in engines.items():
            medians = [statistics.median(values) for values in zip(*races, strict=True)]
            style = {"linewidth": 2.5, "color": "black", "zorder": 3} if engine == OURS else {"linewidth": 1.3}
            panel.plot(range(1, len(medians) + 1), medians, label=LABELS[engine].replace("*", ""), **style)
        panel.axhline(baselines[name], color="grey", linestyle=":", linewidth=1)
        panel.set_title(f"{name}, {len(engines[OURS])} seeds", fontsize=9)
        panel.set_xlabel("evaluations")
    for panel in axes.flat[len(raced) :]:
        panel.set_visible(False)
    axes.flat[0].legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None})
