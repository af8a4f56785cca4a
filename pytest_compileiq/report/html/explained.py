"""A search as a part of a page: its scores with the band of what was expected, and the knobs by the model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pytest_compileiq.explained import BAND, Explained, Series
from pytest_compileiq.report.explained import band_text, effect_texts, resolution
from pytest_compileiq.report.html.charts import MAX_POINTS
from pytest_compileiq.report.html.drawing import (
    LEFT,
    RIGHT,
    WIDTH,
    Chart,
    dotted,
    drawing,
    label,
    pixels,
    x_axis,
    y_axis,
)
from pytest_compileiq.report.html.markup import tag
from pytest_compileiq.report.html.scale import Scale, Unit, drawable, limits_by_fences, padded
from pytest_compileiq.rules.slots import quantile

_FARTHEST = 60.0  # a log-ratio; its exponential is 1e26


def effect_rows(explained: Explained) -> list[tuple[str, str, str]]:
    """What the best candidate has of each knob, the effect by the model, and its interval; the likeliest first."""
    effects = sorted(explained.effects, key=resolution, reverse=True)
    return [effect_texts(effect, explained) for effect in effects]


def search_curve(explained: Explained, ident: str) -> Chart | None:
    """Each score, the best so far, and the band of what was expected; None if there is nothing to draw."""
    curve, unit = explained.curve, Unit(1.0, "" if explained.by_share else "x")
    gains = [_gain(score, explained) for score in curve.scores if score is not None]
    best = [_gain(score, explained) for score in curve.best]
    if not drawable(gains) or not drawable(best):
        return None
    fences, ends = limits_by_fences([gains]), (best[0], best[-1])
    up = Scale(min(fences[0], *ends), max(fences[1], *padded(*ends)), 150, 22)
    across = Scale(0, len(best), LEFT, WIDTH - RIGHT - 8)
    stride = -(-len(best) // MAX_POINTS)

    def drawn(series: Series) -> Iterator[tuple[float, float]]:
        for number in range(0, len(series), stride):
            if (score := series[number]) is not None:
                yield across(number + 1), up(_gain(score, explained))

    bars = zip(drawn(curve.low), drawn(curve.high), strict=True)
    svg = drawing(
        ident, 192, "Scores of the search, and what was expected of them", _in_words(explained, gains, best[-1], unit),
        tag("path", class_="foreseen", d="".join(f"M{pixels(x)} {pixels(low)}V{pixels(high)}"
                                                 for (x, low), (_, high) in bars)),
        y_axis(up, unit),
        tag("path", class_="expected", d="".join(f"M{pixels(x - 1.5)} {pixels(y)}h3"
                                                 for x, y in drawn(curve.expected))),
        tag("path", class_="dots score", d=dotted(drawn(curve.scores))),
        tag("path", class_="median tuned", d=_steps(best, across, up)),
        x_axis(across, Unit(1.0, ""), "evaluations", y=156),
        label(LEFT, 12, "gain over the baseline: scores, best so far, what was expected", "start"),
    )  # fmt: skip
    return Chart(svg, _left_out(explained, up.beyond(gains), stride))


def _gain(score: float, explained: Explained) -> float:
    """What is drawn of a score, higher is better: the ratio, or the difference in shares of the baseline."""
    return -score if explained.by_share else math.exp(max(-_FARTHEST, min(-score, _FARTHEST)))


def _steps(best: Sequence[float], across: Scale, up: Scale) -> str:
    """The best so far as a step line, which is written only where it moves."""
    moves = [(number, gain) for number, gain in enumerate(best) if number == 0 or gain != best[number - 1]]
    steps = "".join(f"H{pixels(across(number + 1))}V{pixels(up(gain))}" for number, gain in moves)
    return f"M{pixels(across(0))} {pixels(up(best[0]))}{steps}H{pixels(across(len(best)))}"


def _in_words(explained: Explained, gains: Sequence[float], best: float, unit: Unit) -> str:
    middle = unit.text(quantile(sorted(gains), 0.5))
    told = f"Gains over the baseline: {unit.text(best)} at best after {len(explained.curve.best)} evaluations, {middle}"
    return ". ".join(filter(None, (f"{told} the median of {len(gains)} scores", band_text(explained)))) + "."


def _left_out(explained: Explained, beyond: int, stride: int) -> str:
    failed = sum(score is None for score in explained.curve.scores)
    parts = [
        f"bars: where {100 * BAND:.0f} % of scores were expected" if explained.curve.foreseen else "",
        f"{beyond} beyond the axis, drawn at its edge" if beyond else "",
        f"{failed} failed" if failed else "",
        f"one evaluation in {stride} drawn" if stride > 1 else "",
    ]
    return "; ".join(filter(None, parts))
