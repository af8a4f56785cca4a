"""What each option does to a score, by a ridge regression of each kernel's candidates, and what that is over kernels.

Hoerl & Kennard, "Ridge Regression" (Technometrics 12, 1970). At ``-Os`` options do other things than at other levels,
and its own effect hides all others: candidates at ``-Os`` are a kind of their own for sizes, and left out of speeds.
Scores are in standard deviations of a kernel's random candidates, so that kernels of small and large gains count alike.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from learn_corpus import METRICS, Measured
from pytest_compileiq.engines.ga.encoding import Encoding, Floats
from pytest_compileiq.engines.ga.process import GaussianProcess, Hyper
from race_objectives import gcc_space

KINDS: Mapping[str, tuple[Sequence[str], bool]] = {  # metrics, and whether of candidates at -Os
    "size": (["code_bytes"], False),
    "size at -Os": (["code_bytes"], True),
    "speed": (["executed", "time"], False),
}
SPACE = gcc_space()
OPTIONS = [(gene.name, value) for gene in SPACE.genes for value in gene.values]
GENE_OF = np.repeat(np.arange(len(SPACE.genes)), [len(gene.values) for gene in SPACE.genes])
SMALL = OPTIONS.index(("-O", "s"))
RIDGE = 5.0
LEAST_SPREAD = 0.003  # of the log-ratios: below it options do nothing to a kernel but noise
FEWEST = 20
FURTHEST = 5.0
FURTHEST_LEVEL = 3.0  # more would leave nothing to the other options, nor to a second objective
LEAST_DEVIATION = 0.3  # of the scores told: of one, or of equal ones, there is none


@dataclass(frozen=True)
class Task:
    """The candidates of one source, one metric and one kind.

    Attributes:
        family: of sources that are one code under two names, none of which may foretell another.
        options: zeros and ones, centred, shape (n, options).
        features: as the engine encodes points, shape (n, F).
        scores: in standard deviations, centred, shape (n,).
        is_random: which candidates were drawn by the space's probabilities, shape (n,).
        level: what ``-Os`` adds.
    """

    family: str
    options: Floats
    features: Floats
    scores: Floats
    is_random: NDArray[np.bool_]
    level: float


FAMILIES = {"lzfse_lzvn": "lzvn_decoder", "webrtc_core": "voice"}


def tasks(sources: Iterable[Measured], kind: str) -> list[Task]:
    """Those that say something of ``kind``."""
    metrics, at_small = KINDS[kind]
    made = [_task(source, METRICS.index(metric), at_small=at_small) for source in sources for metric in metrics]
    return [task for task in made if task is not None]


def _task(source: Measured, metric: int, *, at_small: bool) -> Task | None:
    scored = ~np.isnan(source.scores[:, metric])
    is_random = (np.arange(len(scored)) < len(scored) // 2)[scored]
    points, scores = source.points[scored], source.scores[scored, metric]
    options = _options(points)
    small = options[:, SMALL] == 1
    chosen = small == at_small
    if (chosen & is_random).sum() < FEWEST:
        return None
    near = _squashed(scores[chosen])
    spread = float(near[is_random[chosen]].std())
    if spread < LEAST_SPREAD:
        return None
    level = (scores[is_random & small].mean() - scores[is_random & ~small].mean()) / spread
    return Task(
        FAMILIES.get(source.name, source.name),
        options[chosen] - options[chosen].mean(axis=0),
        Encoding.of(SPACE).features(points[chosen]),
        np.clip((near - near.mean()) / spread, -FURTHEST, FURTHEST),
        is_random[chosen],
        float(np.clip(level, -FURTHEST_LEVEL, FURTHEST_LEVEL)),
    )


def learned(every: Sequence[Task]) -> Floats:
    """The mean over tasks of what each option adds, shape (options,)."""
    each = np.array([
        task.options.T @ np.linalg.solve(task.options @ task.options.T + RIDGE * np.eye(len(task.scores)), task.scores)
        for task in every
    ])  # fmt: skip
    each[:, SMALL] = [task.level for task in every]
    return np.asarray(each.mean(axis=0))


def foretold(task: Task, told: NDArray[np.int64], others: NDArray[np.int64], effects: Floats | None) -> Floats:
    """What the engine's Gaussian process, before it learns relevances, expects of ``others`` when it knows ``told``."""
    encoding = Encoding.of(SPACE)
    trend = None if effects is None else encoding.linear([effects[gene == GENE_OF] for gene in range(len(SPACE.genes))])
    scores = (task.scores[told] - task.scores[told].mean()) / max(float(task.scores[told].std()), LEAST_DEVIATION)
    prior = Hyper.prior(len(SPACE.genes), trend=trend)
    return GaussianProcess(encoding, task.features[told], scores, prior).predict(task.features[others])[0]


def write(path: Path, by_kind: Mapping[str, Floats]) -> None:
    """One row an option, one column a kind."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(["knob", "value", *by_kind])
        for number, (name, value) in enumerate(OPTIONS):
            rows.writerow([name, value, *(f"{effects[number]:.2f}" for effects in by_kind.values())])


def _options(points: NDArray[np.int64]) -> Floats:
    """Which option each candidate has, shape (n, options)."""
    first = np.cumsum([0, *(len(gene.values) for gene in SPACE.genes)])[:-1]
    options = np.zeros((len(points), len(OPTIONS)))
    rows, genes = np.nonzero(points != -1)
    options[rows, first[genes] + points[rows, genes]] = 1.0
    return options


def _squashed(scores: Floats) -> Floats:
    """Those above the median nearer to it by a logarithm, as the engine takes them."""
    middle = np.median(scores)
    scale = max(float(middle - scores.min()), 1e-9)
    return np.where(scores > middle, middle + scale * np.log1p(np.maximum(scores - middle, 0) / scale), scores)
