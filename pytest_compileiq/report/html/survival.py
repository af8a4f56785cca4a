"""How long artifacts held, as a part of a page: curves of cumulative incidence by cause, and tables."""

from __future__ import annotations

from pytest_compileiq.report.html.drawing import LEFT, RIGHT, WIDTH, drawing, label, pixels, x_axis, y_axis
from pytest_compileiq.report.html.markup import Html, join, tag
from pytest_compileiq.report.html.scale import Scale, Unit
from pytest_compileiq.report.html.sections import MAX_ROWS, table
from pytest_compileiq.report.survival import LIFETIME_COLUMNS, Survival, end_text
from pytest_compileiq.rules.survival import Curve, Incidence

_DASHES = ("", "6 3", "2 3", "9 3 2 3", "1 4", "12 4", "4 6", "8 2 2 2 2 2")  # one for each cause that there is
_HEIGHT, _LEGEND_LINE = 150, 15


def survival_parts(survival: Survival) -> list[Html]:
    """The heading, a sentence, the curves where something is known, and both tables."""
    parts = [tag("h2", "How long artifacts hold"), tag("p", survival.summary)]
    if survival.incidence is not None:
        legend = tag("figcaption", "Share of proofs that had ended, by cause, over the days since the proof")
        figure = tag("figure", legend, _curves(survival.incidence))
        parts.append(tag("div", figure, class_="figures"))
    if rows := list(survival.share_rows()):
        parts.append(table("Ended within, with 95 % intervals", [*map(str.capitalize, survival.share_columns)], rows))
    rows = list(survival.lifetime_rows())
    caption = (
        f"The newest {MAX_ROWS} of {len(rows)} proofs" if len(rows) > MAX_ROWS else "Every proof, the newest first"
    )
    parts.append(table(caption, [*map(str.capitalize, LIFETIME_COLUMNS)], rows[:MAX_ROWS]))
    return parts


def _curves(incidence: Incidence) -> Html:
    curves = incidence.curves()
    across = Scale(0, max(incidence.followed_days, 1.0), LEFT, WIDTH - RIGHT - 8)
    highest = max((share for curve in curves for _, share in curve.points), default=0.0)
    up = Scale(0, 100 * max(highest, 0.05), _HEIGHT, 22)
    listed = "; ".join(f"{end_text(curve.end)} {100 * curve.points[-1][1]:.0f} %" for curve in curves)
    return drawing(
        "survival", _HEIGHT + 46 + _LEGEND_LINE * len(curves), "Cumulative incidence by cause",
        f"Ended within {incidence.followed_days:.0f} days: {listed or 'none'}.",
        y_axis(up, Unit(1.0, "%")), x_axis(across, Unit(1.0, ""), "days since the proof", y=_HEIGHT + 6),
        *(_curve(curve, number, across, up) for number, curve in enumerate(curves)),
    )  # fmt: skip


def _curve(curve: Curve, number: int, across: Scale, up: Scale) -> Html:
    """The curve, and its line of the legend: causes differ by their dashes, which need no colours."""
    dashes = _DASHES[number % len(_DASHES)] or None
    points = "L".join(f"{pixels(across(day))} {pixels(up(100 * share))}" for day, share in curve.points)
    y = _HEIGHT + 52 + _LEGEND_LINE * number
    return join([
        tag("path", class_="share", stroke_dasharray=dashes, d=f"M{points}"),
        tag("path", class_="share", stroke_dasharray=dashes, d=f"M{LEFT} {y - 4}h40"),
        label(LEFT + 48, y, f"{end_text(curve.end)}: {100 * curve.points[-1][1]:.0f} %", "start"),
    ])  # fmt: skip
