"""Searches of single sources with what the other sources teach, and without: what is held for best on the way.

As in a race, but for the engine, which is the embedded one both times. Neither the source teaches anything nor one that
is the same code under another name. With ``--level=-O3`` the baseline, and so the space, is another than in the corpus.
"""

import math
import statistics
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args
from unittest.mock import patch

import learn_portfolio
from learn_corpus import Measured
from learn_effects import FAMILIES, KINDS, learned, tasks, write
from pytest_compileiq.engines.ga import experience
from pytest_compileiq.model import Knobs
from pytest_compileiq.space import Space
from race_build import BASELINE, Build, Kernel, Source, Workshop
from race_data import by_evaluations
from race_figures import Curve
from race_kept import Kept
from race_objectives import Metric, Objective, Opened, gcc_space
from race_runs import run

SHOWN = (12, 25, 50, 75, 100)
LEAST = 0.003  # a log-ratio: where no search finds as much there is nothing to tell
METRICS = get_args(Metric)


@dataclass(frozen=True)
class Asked:
    """Which searches: of ``metric``, behind a baseline of ``level``, with ``seeds`` seeds each."""

    metric: Metric
    level: str
    seeds: int


class AtLevel(Opened):
    """An objective whose baseline has another ``-O``."""

    def __init__(self, objective: Objective, kernel: Kernel, level: str) -> None:
        super().__init__(objective, kernel)
        self._level = {} if level in BASELINE else {"-O": level.removeprefix("-O")}

    def build(self, knobs: Knobs) -> Build:
        return super().build({**self._level, **knobs})


def searched(corpus: Sequence[Measured], chosen: Sequence[Source], asked: Asked, cache: Path) -> Iterator[str]:
    """One line a source, then the means of what is held after some evaluations, cold and with experience."""
    kept = Kept(cache)
    workshop = Workshop(kept)
    shares: dict[str, list[Sequence[float]]] = {"cold": [], "experienced": []}
    try:
        for source in chosen:
            by_label = _held(corpus, workshop, source, asked)
            most = min(curve.value(SHOWN[-1]) for curves in by_label.values() for curve in curves)
            if most > -LEAST:
                yield f"{source.name:<32}nothing to find"
                continue
            for label, curves in by_label.items():
                each = [statistics.mean(curve.value(count) for curve in curves) / most for count in SHOWN]
                shares[label].append(each)
                yield f"{source.name:<32}{math.exp(most):<8.3f}{label:<12}" + _row(each)
    finally:
        workshop.close()
        kept.close()
    for label, rows in shares.items():
        means = [statistics.mean(column) for column in zip(*rows, strict=True)]
        yield f"{f'{len(rows)} sources':<40}{label:<12}" + _row(means)


def _held(corpus: Sequence[Measured], workshop: Workshop, source: Source, asked: Asked) -> dict[str, list[Curve]]:
    kernel, space = Kernel(workshop, source), gcc_space(asked.level)
    try:
        with taught_without(corpus, {source.name}):
            return {
                "cold": _curves(kernel, replace(space, compiler=""), asked),
                "experienced": _curves(kernel, space, asked),
            }
    finally:
        kernel.close()


def _curves(kernel: Kernel, space: Space, asked: Asked) -> list[Curve]:
    opened = AtLevel(Objective(kernel.source.name, kernel.source, (asked.metric,), space), kernel, asked.level)
    return [by_evaluations(run("ga", opened, seed, SHOWN[-1])) for seed in range(asked.seeds)]


@contextmanager
def taught_without(corpus: Sequence[Measured], names: Collection[str]) -> Iterator[None]:
    """Within, the engine expects what the corpus teaches without the sources ``names`` and their families."""
    families = {FAMILIES.get(name, name) for name in names}
    others = [source for source in corpus if FAMILIES.get(source.name, source.name) not in families]
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "gcc"), {kind: learned(tasks(others, kind)) for kind in KINDS})
        sets = {kind: learn_portfolio.chosen(learn_portfolio.tried(kind), families) for kind in KINDS}
        learn_portfolio.write(Path(folder, "gcc sets"), sets)
        with (
            patch.object(experience, "_path_of", lambda compiler: Path(folder, compiler or "none")),
            patch.object(experience, "_portfolio_of", lambda compiler: Path(folder, f"{compiler or 'no'} sets")),
        ):
            _forget()
            yield
    _forget()


def _forget() -> None:
    experience._table.cache_clear()
    experience._portfolio.cache_clear()


def _row(figures: Sequence[float]) -> str:
    return "".join(f"{figure:>7.2f}" for figure in figures)
