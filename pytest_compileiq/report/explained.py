"""Which knobs of a search mattered, by a model of its scores, in words that nobody takes for a measurement."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_compileiq.explained import BAND, Explained, KnobEffect
from pytest_compileiq.report.artifact import setting_text
from pytest_compileiq.rules.words import interval_text, ratio_text, words_for
from pytest_compileiq.spelling import quantity

MOST_NAMED = 3
BY_THE_MODEL = "by the model, not measured"
_FARTHEST = 60.0  # its exponential is 1e26


def explained_lines(explained: Explained) -> Iterator[str]:
    """At most three lines: the knobs that mattered, those that are not told from no effect, how good the model was.

    Where no knob is told apart, one line says so: an effect that may be none tells nothing.
    """
    if explained.effects and not explained.told_apart:
        yield f"{BY_THE_MODEL}: {_none_apart_text(explained)}"
        return
    if not explained.effects:
        yield f"no knob is explained: {explained.why_none}"
    else:
        yield from _effect_lines(explained)
    if text := band_text(explained):
        yield text


def _effect_lines(explained: Explained) -> Iterator[str]:
    """The largest effects, and how many knobs are not told apart from none."""
    by_size = sorted(explained.effects, key=lambda effect: -abs(effect.loss))
    apart = [effect for effect in by_size if effect.is_told_apart]
    told = ", ".join(_told(effect, explained) for effect in apart[:MOST_NAMED])
    rest = len(apart) - MOST_NAMED
    more = f", and {quantity(rest, 'more knob')} {'matters' if rest == 1 else 'matter'}" if rest > 0 else ""
    yield f"{BY_THE_MODEL}: {_objective_text(explained)} {told}{more}"
    left = explained.knobs - len(apart)
    unsure = (
        f"{left} of {quantity(explained.knobs, 'knob')} {'is' if left == 1 else 'are'} not told apart from no effect"
    )
    if len(apart) < min(MOST_NAMED, len(by_size)):
        likeliest = max((effect for effect in by_size if not effect.is_told_apart), key=resolution)
        unsure += f"; likeliest {_objective_text(explained)} {_told(likeliest, explained)}"
    yield f"{BY_THE_MODEL}: {unsure}"


def _none_apart_text(explained: Explained) -> str:
    evaluations = quantity(len(explained.curve.scores), "evaluation")
    return f"{evaluations} tell none of {quantity(explained.knobs, 'knob')} apart from no effect"


def band_text(explained: Explained) -> str:
    """How many scores were as the model had expected; empty where nothing was expected."""
    foreseen, within = explained.curve.foreseen, explained.curve.within
    if not foreseen:
        return ""
    held = f"{within} of {quantity(foreseen, 'score')} ({100 * within / foreseen:.0f} %)"
    return f"the model's {100 * BAND:.0f} % band, made before each was measured, held {held}"


def resolution(effect: KnobEffect) -> float:
    """How nearly an effect is told apart from none: its size in widths of its interval."""
    return abs(effect.loss) / max(effect.high - effect.low, 1e-12)


def effect_texts(effect: KnobEffect, explained: Explained) -> tuple[str, str, str]:
    """What the best candidate has of a knob, the effect, and its interval."""
    text = _step_text(effect.loss, explained) if effect.is_told_apart else "not told apart from no effect"
    return _setting(effect), text, _limits_text(effect, explained)


def _told(effect: KnobEffect, explained: Explained) -> str:
    return f"{_step_text(effect.loss, explained)} {_setting(effect)} ({_limits_text(effect, explained)})"


def _setting(effect: KnobEffect) -> str:
    """``with -O3``, ``without -fno-gcse``, ``with num_warps=8 instead of 4``."""
    if effect.value is None:
        return f"without {setting_text(effect.knob, effect.instead)}"
    instead = "" if effect.instead is None else f" instead of {effect.instead}"
    return f"with {setting_text(effect.knob, effect.value)}{instead}"


def _objective_text(explained: Explained) -> str:
    more = explained.objectives > 1
    return f"{explained.objective} (the first of {explained.objectives} objectives)" if more else explained.objective


def _step_text(loss: float, explained: Explained) -> str:
    """What the best candidate's own setting gains."""
    words = words_for(explained.objective, explained.direction)
    if explained.by_share:
        return f"{words[0] if loss >= 0 else words[1]} by {abs(loss):.3g} of the baseline's magnitude"
    return ratio_text(_ratio(loss), words)


def _limits_text(effect: KnobEffect, explained: Explained) -> str:
    if explained.by_share:
        return f"{effect.low:.3g} to {effect.high:.3g}"
    return interval_text(_ratio(effect.low), _ratio(effect.high), words_for(explained.objective, explained.direction))


def _ratio(step: float) -> float:
    return math.exp(max(-_FARTHEST, min(step, _FARTHEST)))
