"""Crossover, mutation and neighbours of points, shape (n, genes); −1 is off. Results are not yet canonical."""

from __future__ import annotations

import numpy as np

from pytest_compileiq.engines.ga.encoding import Floats, Points


def crossover(elite: Points, rng: np.random.Generator, size: int) -> Points:
    """Uniform crossover of random pairs (Syswerda, ICGA 1989)."""
    mothers, fathers = elite[rng.integers(len(elite), size=size)], elite[rng.integers(len(elite), size=size)]
    return np.where(rng.random(mothers.shape) < 0.5, mothers, fathers)


def mutate(points: Points, counts: Points, rng: np.random.Generator, relevance: Floats | None = None) -> Points:
    """Change a geometric number of genes (at least one), chosen by ``relevance`` (genes,) or uniformly.

    Numeric genes may step to a neighbour; the geometric number is that of Doerr et al., "Fast genetic algorithms"
    (GECCO 2017), in its light-tailed form.
    """
    size, genes = points.shape
    chances = np.full(genes, 1 / genes) if relevance is None else relevance / relevance.sum()
    # The genes with the shortest exponential waiting times are a draw by their chances, without replacement.
    waiting = rng.exponential(size=(size, genes)) / chances
    place = waiting.argsort(axis=1).argsort(axis=1)
    changed = place < rng.geometric(0.4, size=(size, 1))
    return np.where(changed, _others(points, counts, rng), points)


def neighbours(points: Points, counts: Points, rng: np.random.Generator, size: int) -> Points:
    """``size`` points for each of ``points`` that differ from it in one gene each."""
    repeated = np.repeat(points, size, axis=0)
    changed = rng.integers(points.shape[1], size=(len(repeated), 1)) == np.arange(points.shape[1])
    return np.where(changed, _others(repeated, counts, rng), repeated)


def _others(values: Points, counts: Points, rng: np.random.Generator) -> Points:
    """A different option of −1 … count − 2 everywhere; half of the time a step of one, which suits numeric genes."""
    drawn = (rng.random(values.shape) * (counts - 1)).astype(np.int64) - 1
    drawn += drawn >= values
    steps = np.clip(values + np.where(rng.random(values.shape) < 0.5, -1, 1), -1, counts - 2)
    stepping = (counts > 3) & (rng.random(values.shape) < 0.5)
    return np.where(counts < 2, values, np.where(stepping, steps, drawn))
