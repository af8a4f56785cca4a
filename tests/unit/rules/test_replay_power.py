"""Whether replays would hold a gain, against a simulation of Student's bounds."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy import stats

from pytest_compileiq.claim import Claim
from pytest_compileiq.rules.gate import LOOKS, REPLAY_PROVE_TAIL, why_hard_to_hold
from tests.unit.rules.test_claims import DECISION, measured


def claimed(gain: float, sd: float, *, processes: int = 8, **changes) -> Claim:
    """A gain whose interval is that of so many processes which deviate by ``sd``."""
    reach = stats.t.isf(0.025, processes - 1) * sd / math.sqrt(processes)
    low, high = (math.exp(math.log1p(gain) + sign * reach) for sign in (-1, 1))
    test = DECISION.model_copy(update={"processes": processes})
    return measured(speedup=1 + gain, speedup_low=low, speedup_high=high, test=test, workload="default", **changes)


@pytest.mark.parametrize(("gain", "sd"), [(0.03, 0.03), (0.015, 0.02), (0.02, 0.025)])
def test_the_share_of_replays_that_hold_a_gain_is_that_of_a_simulation(gain, sd):
    told = re.fullmatch(
        r"(\d+)% of replays here would hold the gain in runtime: processes deviate by (\S+)%, "
        r"and 80% requires at most (\S+)%: use longer calls or a quieter machine",
        why_hard_to_hold(claimed(gain, sd)),
    )
    share, deviation, most = (float(number) / 100 for number in told.groups())
    assert deviation == pytest.approx(sd, abs=1e-4)
    for spread, held in ((sd, share), (most, 0.8)):
        draws = math.log1p(gain) + spread * np.random.default_rng(1).standard_normal((20_000, LOOKS[-1]))
        error = stats.sem(draws, axis=1)
        low = draws.mean(axis=1) + stats.t.ppf(REPLAY_PROVE_TAIL, LOOKS[-1] - 1) * error
        floor = max(math.log1p(gain) / 2, math.log(1.005))
        assert (low > floor).mean() == pytest.approx(held, abs=0.015)


def test_a_small_gain_is_told_and_what_holds_or_is_no_gain_is_not():
    assert "below 2%" in why_hard_to_hold(claimed(0.015, 0.001))
    assert "80% requires a gain above 0.5%" in why_hard_to_hold(claimed(0.004, 0.001))
    for held in (claimed(0.1, 0.01), claimed(0.004, 0.01, kind="non-inferior")):
        assert why_hard_to_hold(held) is None
    second = claimed(0.1, 0.01)
    wide = second.model_copy(update={"test": second.test.model_copy(update={"second": 32})})
    assert why_hard_to_hold(claimed(0.03, 0.012)) is None and why_hard_to_hold(wide) is None
