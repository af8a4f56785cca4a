"""How long it will take to prove the best of a search, by what its search and this machine's workers took so far."""

from __future__ import annotations

import math

from pytest_compileiq.config import Settings
from pytest_compileiq.rules import gate
from pytest_compileiq.rules.task_scheduler import closing_s
from pytest_compileiq.search import scoring
from pytest_compileiq.search.finalists import FEWEST_ROUNDS, PLAYOFF, SHARE_OF_SEARCH
from pytest_compileiq.tuning import attribution, reduce, stress
from pytest_compileiq.tuning.finals import FINALISTS
from pytest_compileiq.tuning.under_way import UnderWay

_LOOK = 1  # what is real is decided at the first look or at this one
# Calls of one block of the gate's for a quad of the search's, each slot with its discarded call.
_BLOCK = gate.QUADS * (gate.SAMPLES + 1) / (scoring.SAMPLES + 1)
_PLAYED = PLAYOFF * (1 + FEWEST_ROUNDS)  # each is checked once more, which is at most a block
_SAMPLES = 2  # of a proof


def closing_seconds(tuning: UnderWay, settings: Settings, start_s: float) -> float:
    """Seconds from the end of the search to the stored artifact; a worker starts in ``start_s``."""
    scorer, search_s = tuning.brief.scorer, tuning.search.tally.seconds
    is_timed = bool(tuning.tuning.benchmark.timed_objectives)
    processes = gate.looks_of(tuning.tuning.pool.devices)[_LOOK]
    proofs = processes * (FINALISTS + 1 + settings.reduce) * _BLOCK  # in the second sample, full and reduced
    stressed = FINALISTS * stress.SHARE if tuning.baseline.drew else 0.0
    reduced = reduce.SHARE_OF_SEARCH + attribution.SHARE_OF_SEARCH if settings.reduce else 0.0
    waited_s = (0.0 if settings.reduce else gate.CONFIRM_AFTER_S) + _SAMPLES * processes * gate.PROCESS_EVERY_S
    more_s = SHARE_OF_SEARCH * search_s + waited_s if is_timed else 0.0  # more rounds of the play-off
    return more_s + closing_s(
        blocks=(_PLAYED + proofs) * len(tuning.tuning.benchmark.timed_workloads) if is_timed else 0.0,
        block_s=scorer.quads_s / max(scorer.quads, 1),
        starts=_SAMPLES * math.ceil(processes / settings.jobs) if is_timed else 0.0,
        start_s=start_s,
        share=reduced + stressed,
        search_s=search_s,
        least_s=reduce.FLOOR_S + reduce.IDLE_S + attribution.FLOOR_S if settings.reduce else 0.0,
    )
