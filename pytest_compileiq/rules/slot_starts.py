"""Whether a gain outlives what makes a checked call another one: overwritten outputs, or time that has passed.

A kernel can skip its work where its outputs are as it left them, or where it was called a moment ago, and do it when
somebody looks. So each slot begins with one single call, timed as all are (``SlotStart``). Streaming stores and loops
that just fit a cache lose by an overwrite, too, honestly: a *sham* overwrites with the same bytes, by the same traffic,
and only the loss between the two, of the content, counts. A pause has neither.

With the log of baseline over tuned of each process, L of its slots, D and S of its dirty and sham calls, and with the
seconds that the tuned arm saves, l in its slots and g in its paused calls:

- content loss: (S - D) / min(L, max(S, L / 2));
- pause loss: (l - g) / l, where the baseline takes 2 µs or more. Seconds, since the cost of a call after a pause comes
  on top of both arms: an honest stencil of 1.9 µs lost 0.52 of its log gain, and 0.23 of its seconds.

0 is a gain that is all there, 1 one that is gone. The denominators are of all processes together: where some skip their
work and some do not, those that do decide. Of a process the fastest call of a kind counts, as -1 to 2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pytest_compileiq.rules.evidence import Evidence
from pytest_compileiq.rules.stats import Floats, paired_p

LEAST_GAIN = 1.1  # smaller ones drown in the spread of single calls
MOST_LOSS = 0.5
MOST_BARE_GAIN = 10.0
SURE_P, SURE_PROCESSES = 0.001, 16
_LEAST_CALL_S = 2e-6  # of the baseline, for a pause
_CLIP = -1.0, 2.0


class Lost(NamedTuple):
    """A gain that is not there in single calls, in words; ``sure`` when more processes would not bring it back."""

    reason: str
    sure: bool


def why_not_the_work(evidence: Evidence, speedup: float) -> Lost | None:
    """Why ``speedup`` is no gain of work that each call does; None where nothing says so, or nothing can."""
    if speedup < LEAST_GAIN or evidence.analysis.scale is not None or not evidence.starts:
        return None
    if lost := _content_lost(evidence) or _pause_lost(evidence):
        return lost
    if "bare" not in evidence.starts or speedup <= MOST_BARE_GAIN:
        return None
    remedy = "give acf.measure outputs=[…], check= or reset="
    return Lost(f"a gain of {speedup:.1f}x, above {MOST_BARE_GAIN:g}x, requires checked calls: {remedy}", sure=False)


def _content_lost(evidence: Evidence) -> Lost | None:
    if not {"dirty", "sham"} <= evidence.starts.keys():
        return None
    dirty, sham = (_log_gain(evidence.starts[kind]) for kind in ("dirty", "sham"))
    whole = float(evidence.by_process.mean())
    of = min(whole, max(float(np.nanmedian(sham)), whole / 2))
    return _lost(
        "content",
        (sham - dirty) / max(of, math.log(LEAST_GAIN) / 2),
        f"{_times(dirty)} on outputs that were overwritten with other bytes, and {_times(sham)} with the same bytes",
        "the call skips work where its outputs are as it left them; do the work in every call",
    )


def _pause_lost(evidence: Evidence) -> Lost | None:
    paused = evidence.starts.get("pause", evidence.starts.get("bare"))
    if paused is None or not np.nanmedian(evidence.baseline) >= _LEAST_CALL_S:
        return None
    kept = np.isfinite(evidence.by_quad).any(axis=1)
    baseline_s = np.exp(np.nanmean(np.log(evidence.baseline[kept]), axis=(1, 2)))
    saved_s, after_s = -baseline_s * np.expm1(-evidence.by_process), paused[kept, 0] - paused[kept, 1]
    return _lost(
        "pause",
        (saved_s - after_s) / max(float(saved_s.mean()), float(baseline_s.mean()) * (1 - 1 / LEAST_GAIN)),
        f"{_times(_log_gain(paused))} in calls after a pause, and {_times(evidence.by_process)} in a row",
        "the call skips work where it was called a moment ago; do the work in every call",
    )


def _lost(test: str, losses: Floats, shown: str, remedy: str) -> Lost | None:
    losses = np.clip(losses[np.isfinite(losses)], *_CLIP)
    if not losses.size or not losses.mean() >= MOST_LOSS:
        return None
    p_value = paired_p(losses, MOST_LOSS) if losses.size >= SURE_PROCESSES else 1.0
    said = f"{test} loss {losses.mean():.2f} (at most {MOST_LOSS:g}"
    said += f", p = {p_value:.2g})" if p_value <= SURE_P else ")"
    return Lost(f"{said}: the speed-up is {shown}: {remedy}", sure=p_value <= SURE_P)


def _log_gain(seconds: Floats) -> Floats:
    return np.asarray(np.log(seconds[:, 0] / seconds[:, 1]))


def _times(log_gains: Floats) -> str:
    return f"{math.exp(np.nanmedian(log_gains)):.3g}x"
