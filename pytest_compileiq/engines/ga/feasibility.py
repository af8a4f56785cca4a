"""How likely a candidate is not to fail: a ridge on the failure indicator (Hoerl & Kennard, Technometrics 12, 1970)."""

from __future__ import annotations

import numpy as np

from pytest_compileiq.engines.ga.encoding import Floats

_RIDGE = 2.0
_FLOOR = 0.02


def success_probability(features: Floats, failed: Floats, asked: Floats) -> Floats:
    """Probability that each asked point gives a score.

    Args:
        features: all points told, shape (n, F); ``failed`` is 1.0 where they failed, shape (n,).
        asked: shape (m, F).

    Returns:
        Shape (m,), from 0.02 to 1.
    """
    if not failed.any():
        return np.ones(len(asked))
    mean, centre = failed.mean(), features.mean(axis=0)
    centred = features - centre
    dual = np.linalg.solve(centred @ centred.T + _RIDGE * np.eye(len(failed)), failed - mean)
    return np.asarray(np.clip(1 - mean - (asked - centre) @ (centred.T @ dual), _FLOOR, 1.0))
