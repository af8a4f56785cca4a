"""How long artifacts held, in words and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pytest_compileiq.history.lifetimes import ArtifactLifetime
from pytest_compileiq.history.observation import date_of
from pytest_compileiq.outcome import REPLACED, End
from pytest_compileiq.report.artifact import table_lines
from pytest_compileiq.rules.survival import Incidence, Lifetime, Share, incidence_of

_HORIZONS_DAYS = (30, 90, 365)  # as far as anything was followed, which is the last of them then
MOST_LIFETIMES = 20  # of all artifacts on a terminal, the newest; JSON has all
LIFETIME_COLUMNS = ("artifact", "target", "proven", "commit", "days", "ended by")
STALE: tuple[End, ...] = tuple(end for end in get_args(End) if end not in REPLACED)
_WORDS: dict[End, str] = {"gain": "gain gone", "wrong": "wrong results"}
_ANY = "any of these"


@dataclass(frozen=True)
class Survival:
    """How long artifacts held: each proof's lifetime, and the shares over all; None where nothing is known of any."""

    lifetimes: tuple[ArtifactLifetime, ...]
    incidence: Incidence | None

    @classmethod
    def of(cls, lifetimes: Sequence[ArtifactLifetime]) -> Survival:
        """The estimate from ``lifetimes``."""
        names = [each.name for each in lifetimes]
        return cls(tuple(lifetimes), incidence_of([each.lifetime for each in lifetimes], names))

    @property
    def _horizons(self) -> tuple[float, ...]:
        followed = self.incidence.followed_days if self.incidence else 0.0
        return *(days for days in _HORIZONS_DAYS if days < followed), *([followed] if followed else [])

    @property
    def share_columns(self) -> tuple[str, ...]:
        """The head of ``share_rows``."""
        return "ended by", "proofs", *(f"within {_days(math.ceil(days))}" for days in self._horizons)

    @property
    def summary(self) -> str:
        """How many proofs there were and what became of them, in a sentence."""
        ends = [each.lifetime.ends for each in self.lifetimes]
        stale, replaced = (sum(bool(each & set(kinds)) for each in ends) for kinds in (STALE, REPLACED))
        names = len({each.name for each in self.lifetimes})
        going_on = sum(not each for each in ends)
        return (
            f"{len(ends)} proof{'s' * (len(ends) != 1)} of {names} artifact{'s' * (names != 1)}: {stale} ended stale, "
            f"{replaced} replaced or withdrawn before that, {going_on} not known to have ended"
        )

    def share_rows(self) -> Iterator[tuple[str, ...]]:
        """A row of ``share_columns`` for each cause that ended a proof, the causes of staleness first."""
        seen = [end for end in (*STALE, *REPLACED) if self._count([end])]
        stale = [end for end in seen if end in STALE]
        rows: list[tuple[str, Sequence[End]]] = [(end_text(end), [end]) for end in stale]
        rows += [(_ANY, stale)] if len(stale) > 1 else []
        rows += [(end_text(end), [end]) for end in seen if end in REPLACED]
        for name, ends in rows:
            shares = (self.incidence.by(days, ends) for days in self._horizons) if self.incidence else ()
            yield name, str(self._count(ends)), *map(share_text, shares)

    def _count(self, ends: Sequence[End]) -> int:
        return sum(bool(each.lifetime.ends & set(ends)) for each in self.lifetimes)

    def lifetime_rows(self) -> Iterator[tuple[str, ...]]:
        """A row of ``LIFETIME_COLUMNS`` for each proof, the newest first."""
        for each in sorted(self.lifetimes, key=lambda each: -each.begun_s):
            begun = date_of(each.begun_s)[:10]
            ends = " or ".join(end_text(end) for end in (*STALE, *REPLACED) if end in each.lifetime.ends)
            yield each.name, each.target, begun, each.commit[:12], days_text(each.lifetime), ends


def end_text(end: End) -> str:
    """What ended an artifact, in words."""
    return _WORDS.get(end, end)


def days_text(lifetime: Lifetime) -> str:
    """``12``, ``19 to 24``, or ``29 and more``."""
    after, until = math.floor(lifetime.after), lifetime.until
    if until == math.inf:
        return f"{after} and more" if lifetime.after else "not seen since"
    if until < 1:
        return "under 1"
    until = math.ceil(until)
    return f"{after} to {until}" if until > after + 1 else f"{until}"


def _days(count: int) -> str:
    return f"{count} day{'s' * (count != 1)}"


def share_text(share: Share) -> str:
    """``12 %, 4 to 23``: the interval is 95 %."""
    between = "" if share.low is None or share.high is None else f", {100 * share.low:.0f} to {100 * share.high:.0f}"
    return f"{100 * share.value:.0f} %{between}"


def survival_lines(survival: Survival, *, of_one: bool) -> Iterator[str]:
    """The section for a terminal; of one artifact there are lifetimes and no shares."""
    yield f"how long they held: {survival.summary}"
    if rows := [] if of_one else list(survival.share_rows()):
        yield from (f"  {row}" for row in table_lines(survival.share_columns, rows))
    rows = list(survival.lifetime_rows())
    if len(rows) > MOST_LIFETIMES:
        yield f"  the newest {MOST_LIFETIMES} of {len(rows)} proofs; --format json has all"
    yield from (f"  {row}" for row in table_lines(LIFETIME_COLUMNS, rows[:MOST_LIFETIMES]))


def survival_values(survival: Survival) -> dict[str, Any]:
    """As in the JSON of ``acf history``: days since the proof; ``until_days`` is null where it goes on."""
    return {
        "lifetimes": [
            {
                "name": each.name,
                "target": each.target,
                "begun_s": each.begun_s,
                "commit": each.commit,
                "after_days": each.lifetime.after,
                "until_days": each.lifetime.until if each.lifetime.ends else None,
                "ends": sorted(each.lifetime.ends),
            }
            for each in survival.lifetimes
        ],
        "incidence": [
            {"end": curve.end, "points": curve.points}
            for curve in (survival.incidence.curves() if survival.incidence else ())
        ],
    }
