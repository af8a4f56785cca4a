"""Learns what gcc's options do to most kernels, which the embedded engine expects of a new one until it has measured.

    nice python bench/learn.py record      builds, times and counts the corpus: two hours of processor time, kept
    nice python bench/learn.py try         tries the best of each source on the others: half an hour of processor time
    python bench/learn.py fit              writes what the engine ships from what was recorded and tried
    python bench/learn.py check            each source by what the others teach: how well it foretells their candidates
    python bench/learn.py search           searches of each source, cold and with what the others teach, e.g. with
                                           --sources sieve,webrtc --metric executed --level=-O3 --seeds 3

The corpus is ``learned_sources`` and the open half of the race, which an engine may be developed on. ``record`` and
``try`` may run twice side by side, as ``--share 1/2`` and ``--share 2/2``; once more without a share they write what
both have kept.
"""

import argparse
import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import learn_corpus
import learn_portfolio
from learn_corpus import Measured
from learn_effects import KINDS, Task, foretold, learned, tasks, write
from learn_search import METRICS, Asked, searched
from pytest_compileiq.engines.ga.encoding import Floats
from race import share
from race_build import Source

ENGINE = Path(__file__).parents[1] / "pytest_compileiq" / "engines" / "ga"
SHIPPED = ENGINE / "experience-gcc.csv"
PORTFOLIO = ENGINE / "portfolio-gcc.csv"
TOLD = (0, 10, 40)  # candidates that were told before the others are foretold
DRAWS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("record", "try", "fit", "check", "search"))
    parser.add_argument("--share", type=share, default=(0, 1), help="1/2 in one process and 2/2 beside it: half each")
    parser.add_argument("--sources", default="", help="beginnings of names, between commas; all without it")
    parser.add_argument("--metric", choices=METRICS, default="code_bytes", help="what is searched")
    parser.add_argument("--level", default="-O2", help="of the searches' baseline")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=learn_corpus.KEPT)
    asked = parser.parse_args()
    if asked.command == "record":
        learn_corpus.record(*asked.share)
    elif asked.command == "try":
        learn_portfolio.record(*asked.share)
    elif asked.command == "fit":
        write(SHIPPED, {kind: learned(tasks(corpus(), kind)) for kind in KINDS})
        learn_portfolio.write(PORTFOLIO, {kind: learn_portfolio.chosen(learn_portfolio.tried(kind)) for kind in KINDS})
    elif asked.command == "check":
        print("\n".join(checked(corpus())))
    else:
        chosen = [source for source in learn_corpus.sources() if _is_chosen(source, asked)]
        for line in searched(corpus(), chosen, Asked(asked.metric, asked.level, asked.seeds), asked.cache):
            print(line, flush=True)


def _is_chosen(source: Source, asked: argparse.Namespace) -> bool:
    runs = asked.metric == "code_bytes" or source.driver is not None
    return runs and source.name.startswith(tuple(asked.sources.split(",")))


def corpus() -> list[Measured]:
    return list(learn_corpus.read())


def checked(sources: list[Measured]) -> Iterator[str]:
    """One line a kind and model: the mean of Spearman's correlation of what was foretold with what was measured."""
    numpy = importlib.metadata.version("numpy")
    yield f"Spearman's correlation after {', '.join(map(str, TOLD))} told, mean over sources (numpy {numpy})"
    for kind in KINDS:
        every = tasks(sources, kind)
        for label, informed in (("nothing expected", False), ("what the others teach", True)):
            figures = np.array([_correlations(task, every, informed=informed) for task in every])
            yield f"{kind:<8}{len(every):>4} tasks  {label:<24}" + "".join(f"{r:>7.2f}" for r in figures.mean(axis=0))


def _correlations(task: Task, every: list[Task], *, informed: bool) -> list[float]:
    """After each of ``TOLD``, the mean over draws of which ones are told."""
    effects = learned([other for other in every if other.family != task.family]) if informed else None
    return [float(np.mean([_correlation(task, effects, told, draw) for draw in range(DRAWS)])) for told in TOLD]


def _correlation(task: Task, effects: Floats | None, told: int, draw: int) -> float:
    order = np.random.default_rng(draw).permutation(np.flatnonzero(task.is_random))[: max(told, 1)]
    others = np.setdiff1d(np.arange(len(task.scores)), order)
    expected = foretold(task, order, others, effects)
    return float(spearmanr(expected, task.scores[others]).statistic) if np.ptp(expected) > 0 else 0.0


if __name__ == "__main__":
    main()
