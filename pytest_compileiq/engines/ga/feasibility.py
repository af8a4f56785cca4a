"""How likely a candidate is not to fail: a ridge on the failure indicator (Hoerl & Kennard, Technometrics 12, 1970)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_compileiq.engines.ga.encoding import Floats

_RIDGE = 2.0
_FLOOR = 0.02


@dataclass(frozen=True)
class Feasibility:
    """A linear estimate of failure: ``mean`` where the features are ``centre`` (F,), changing by ``slope`` (F,)."""

    mean: float
    centre: Floats
    slope: Floats

    @classmethod
    def of(cls, features: Floats, failed: Floats) -> Feasibility:
        """Fitted on all points told, shape (n, F); ``failed`` is 1.0 where they failed, shape (n,)."""
        mean, centre = float(failed.mean()), features.mean(axis=0)
        if not failed.any():
            return cls(0.0, centre, np.zeros(len(centre)))
        centred = features - centre
        dual = np.linalg.solve(centred @ centred.T + _RIDGE * np.eye(len(failed)), failed - mean)
        return cls(mean, centre, centred.T @ dual)

    def success(self, features: Floats) -> Floats:
        """Probability that each point gives a score, from 0.02 to 1: (m, F) → (m,)."""
        return np.asarray(np.clip(1 - self.mean - (features - self.centre) @ self.slope, _FLOOR, 1.0))
