"""How likely a candidate's machine code is new: a kernel estimate (Nadaraya, 1964; Watson, 1964).

The kernel is the Gaussian process's own: knobs without effect on the code weigh nothing in it, so a candidate that
differs only in those coincides with points already told, and where many of them were duplicates it will be one too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pytest_compileiq.engines.ga.encoding import Floats, distances

_PRIOR = 1.0  # points of new machine code, everywhere


def novelty(features: Floats, duplicate: NDArray[np.bool_], weights: Floats, asked: Floats) -> Floats:
    """Probability that each asked point gives new machine code.

    Args:
        features: all points told that were built, shape (n, F).
        duplicate: whether the machine code of each had been seen before, shape (n,).
        weights: of the features in the process's kernel, shape (F,).
        asked: shape (m, F).

    Returns:
        Shape (m,), above 0 and at most 1.
    """
    near = np.exp(-distances(asked, features, weights))
    return np.asarray((near @ ~duplicate + _PRIOR) / (near.sum(axis=1) + _PRIOR))
