"""The embedded engine: a model-assisted evolutionary search, one file per operator.

::

    engine.py      ask and tell: the initial pool, then batches of four slots
    encoding.py    points → binary features, so that distances are matrix products
    surrogate.py   the Gaussian process of this search, and when it is fitted anew
    process.py     a Gaussian process and its expected improvement
    marginals.py   the marginals of the best, and their ratio to those of the rest (TPE)
    portfolio.py   sets of options that do well on most kernels, tried first
    variation.py   crossover, mutation, neighbours
    feasibility.py the probability that a candidate does not fail
    sameness.py    the probability that a candidate's machine code is new
    ranking.py     one objective's order, or NSGA-II's
"""

from pytest_compileiq.engines.ga.engine import Ga

__all__ = ["Ga"]
