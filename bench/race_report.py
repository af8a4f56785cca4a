"""The race in tables: medians, evaluations and seconds to a target, pooled ranks, each with its test."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import race_figures as figures
from machine import describe
from race_data import Races, by_evaluations, by_seconds
from race_figures import Curve
from race_peers import ENGINES, OURS
from race_runs import Race

BEGIN, END = "<!-- from here on written by bench/race.py -->", "<!-- to here -->"
AT = (50, 100, 200)
SHARES = (0.90, 0.95, 0.99)
TIMED = "-time"  # the end of the name of an objective with a time
IN_SECONDS = 1  # the share that is reported in seconds too
SIGNIFICANT = 0.05

Curves = Mapping[str, Mapping[str, Sequence[Curve]]]  # objective → engine → one a seed


def write(page: Path, half: str, races: Races) -> None:
    """Print the tables of ``races`` and put them between the page's marks."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    written = "\n".join(lines(half, races))
    page.write_text(f"{before}{BEGIN}\n\n{written}\n{END}{after}", encoding="utf-8")
    print(written)


def lines(half: str, races: Races) -> Iterator[str]:
    """The report on ``races``, whose seeds are the same for each objective and engine."""
    engines = sorted({engine for raced in races.values() for engine in raced}, key=list(ENGINES).index)
    seeds = {len(raced) for objective in races.values() for raced in objective.values()}
    yield f"The {half} half on {describe()}: {len(races)} objectives, {max(seeds)} seeds of each."
    yield ""
    curves = {
        objective: {engine: [by_evaluations(race) for race in raced.values()] for engine, raced in by_engine.items()}
        for objective, by_engine in races.items()
    }
    moments = [at for at in AT if at <= max(curve.at[-1] for raced in curves.values() for curve in raced[engines[0]])]
    for at in moments:
        yield from _pooled(f"after {at} evaluations", _values(curves, lambda _, at=at: at), engines)
    timed = {
        objective: {engine: [by_seconds(race) for race in raced.values()] for engine, raced in by_engine.items()}
        for objective, by_engine in races.items()
    }
    yield from _pooled(
        "when the first engine has finished, in seconds of builds, measurements and its own",
        _values(timed, _first_end), engines,
    )  # fmt: skip
    yield from _head_start(curves, timed, moments)
    corrected = figures.differences(_values(curves, lambda _: moments[-1]), OURS) if OURS in engines else {}
    for objective, raced in curves.items():
        yield from _objective(objective, raced, timed[objective], moments, corrected)
    yield from _costs(races, engines)


def _values(curves: Curves, at: Callable[[Mapping[str, Sequence[Curve]]], float]) -> figures.Values:
    return {
        objective: {engine: [curve.value(at(raced)) for curve in races] for engine, races in raced.items()}
        for objective, raced in curves.items()
    }


def _first_end(raced: Mapping[str, Sequence[Curve]]) -> float:
    """The median length of the races of the engine whose are shortest."""
    return min(statistics.median(curve.at[-1] for curve in curves) for curves in raced.values())


def _pooled(when: str, values: figures.Values, engines: Sequence[str]) -> Iterator[str]:
    """Ranks over objectives; engines of one objective are ranked over those alone."""
    medians = figures.medians(values)
    best = sum(engines_of[OURS] <= min(engines_of.values()) for engines_of in medians.values() if OURS in engines_of)
    yield f"**{when[0].upper()}{when[1:]}**: ours has the best median, ties counted, on {best} of {len(values)}."
    corrected = figures.differences(values, OURS) if OURS in engines else {}
    for (objective, engine), p in corrected.items():
        if p < SIGNIFICANT and figures.behind(values[objective][OURS], values[objective][engine]):
            yield f"It is significantly behind {ENGINES[engine].label} on {objective} (p = {p:.2g}, Holm)."
    yield ""
    whole = [engine for engine in engines if all(engine in raced for raced in values.values())]
    for group, these in (("", whole), (", one objective each", engines)):
        shared = {name: raced for name, raced in values.items() if all(engine in raced for engine in these)}
        if OURS not in these or len(these) < 2 or len(shared) < 2 or (group and these == whole):
            continue
        result = figures.pooled(shared, these, OURS)
        yield f"| mean rank over {len(shared)} objectives{group} | | Wilcoxon, Holm |"
        yield "|---|---|---|"
        for engine in sorted(these, key=result.ranks.__getitem__):
            p = f"{result.against[engine]:.2g}" if engine != OURS else f"Friedman {result.friedman_p:.2g}"
            yield f"| {ENGINES[engine].label} | {result.ranks[engine]:.2f} | {p} |"
        yield ""


def _head_start(curves: Curves, timed: Curves, moments: Sequence[int]) -> Iterator[str]:
    """Ours early against the best of the others late, on the objectives with a time: in evaluations, and in seconds."""
    measured = [name for name, raced in curves.items() if name.endswith(TIMED) and len(raced) > 1 and OURS in raced]
    if len(moments) < 2 or not measured:
        return
    early, late = moments[-2:]
    theirs, ours, ours_in_time = [], [], []
    for name in measured:
        others = {engine: _median(raced, late) for engine, raced in curves[name].items() if engine != OURS}
        best = min(others, key=others.__getitem__)
        ends = statistics.median(curve.at[-1] for curve in timed[name][best])
        theirs.append(others[best])
        ours.append(_median(curves[name][OURS], early))
        ours_in_time.append(_median(timed[name][OURS], ends))
    ahead, p = figures.no_worse(ours, theirs)
    ahead_in_time, p_in_time = figures.no_worse(ours_in_time, theirs)
    yield (
        f"**Ours after {early} evaluations, the best of the others after {late}**, by medians: ours is no worse on "
        f"{ahead} of {len(measured)} objectives with a time (sign test p = {p:.2g}); in the seconds that the other one "
        f"takes for {late}, on {ahead_in_time} (p = {p_in_time:.2g})."
    )
    yield ""


def _objective(
    name: str,
    raced: Mapping[str, Sequence[Curve]],
    timed: Mapping[str, Sequence[Curve]],
    moments: Sequence[int],
    corrected: Mapping[tuple[str, str], float],
) -> Iterator[str]:
    everything = [curve for curves in raced.values() for curve in curves]
    start, best = everything[0].values[0], min(value for curve in everything for value in curve.values)
    targets = [figures.target_of(start, best, share) for share in SHARES]
    yield f"**{name}** (baseline {start:.4f}, best known {best:.4f})"
    yield ""
    medians = " | ".join(f"{at} evaluations" for at in moments)
    to = " | ".join(f"to {share:.0%}" for share in SHARES)
    yield f"| engine | {medians} | p at {moments[-1]} | {to} | seconds to {SHARES[IN_SECONDS]:.0%} |"
    yield f"|---|{'---|' * (len(moments) + 2 + len(SHARES))}"
    for engine, curves in sorted(raced.items(), key=lambda entry: _median(entry[1], moments[-1])):
        cells = [f"{_median(curves, at):.4f}" for at in moments]
        cells.append(f"{corrected[name, engine]:.2g}" if (name, engine) in corrected else "")
        cells += [_running_time(curves, target) for target in targets]
        cells.append(_running_time(timed[engine], targets[IN_SECONDS]))
        yield f"| {ENGINES[engine].label} | {' | '.join(cells)} |"
    yield ""


def _median(curves: Sequence[Curve], at: float) -> float:
    return statistics.median(curve.value(at) for curve in curves)


def _running_time(curves: Sequence[Curve], target: float) -> str:
    expected = figures.expected_running_time(curves, target)
    low, high = figures.running_time_interval(curves, target)
    return "never" if math.isinf(expected) else f"{expected:.0f} ({low:.0f} to {_count(high)})"


def _count(number: float) -> str:
    return "∞" if math.isinf(number) else f"{number:.0f}"


def _costs(races: Races, engines: Sequence[str]) -> Iterator[str]:
    yield "| engine | builds a race | building, s | measuring, s | its own, s |"
    yield "|---|---|---|---|---|"
    for engine in engines:
        ends = [race.moments[-1] for raced in races.values() for race in raced.get(engine, dict[int, Race]()).values()]
        builds = statistics.mean(end.builds for end in ends)
        costs = ([end.build_s for end in ends], [end.measure_s for end in ends], [end.engine_s for end in ends])
        seconds = " | ".join(f"{statistics.mean(each):.1f}" for each in costs)
        yield f"| {ENGINES[engine].label} | {builds:.0f} | {seconds} |"
    yield ""
