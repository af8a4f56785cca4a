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
    result = points.copy()
    genes = points.shape[1]
    chances = np.full(genes, 1 / genes) if relevance is None else relevance / relevance.sum()
    for row in result:
        number = min(int(rng.geometric(0.4)), genes)
        for gene in rng.choice(genes, size=number, replace=False, p=chances):
            row[gene] = _other(int(row[gene]), int(counts[gene]), rng)
    return result


def neighbours(point: Points, counts: Points, rng: np.random.Generator, size: int) -> Points:
    """``size`` points that differ from ``point`` (genes,) in one gene each."""
    result = np.repeat(point[None, :], size, axis=0)
    genes = rng.integers(point.size, size=size)
    for row, gene in zip(result, genes, strict=True):
        row[gene] = _other(int(row[gene]), int(counts[gene]), rng)
    return result


def _other(value: int, count: int, rng: np.random.Generator) -> int:
    """Another option of −1 … count − 2; half of the time a step of one, which is what numeric genes want."""
    if count < 2:
        return value
    if count > 3 and rng.random() < 0.5:
        return int(np.clip(value + rng.choice([-1, 1]), -1, count - 2))
    drawn = int(rng.integers(count - 1)) - 1
    return drawn + (drawn >= value)
