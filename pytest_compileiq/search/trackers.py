"""Trackers, which are told of every evaluation: a CSV file, MLflow, or whatever an entry point brings.

A tracker only listens. An error in it is reported once and switches it off: the search goes on.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, Protocol

from pytest_compileiq.errors import EnvironmentFault, MarkerError, install
from pytest_compileiq.model import Candidate
from pytest_compileiq.search.journal import Evaluated
from pytest_compileiq.spelling import did_you_mean

GROUP = "pytest_compileiq.trackers"
_NOT_IN_A_NAME = re.compile(r"[^\w .:/-]")  # of a metric of MLflow's; ``registers of kernel*`` has one


class Tracker(Protocol):
    """Hears of one search after another."""

    def begin(self, benchmark: str, target: str, metrics: Sequence[str], parameters: Mapping[str, str]) -> None:
        """A search begins; ``parameters`` are all that it depends on."""
        ...

    def evaluated(self, number: int, candidate: Candidate, outcome: Evaluated) -> None:
        """Evaluation ``number``, from 0, is finished; evaluations of a resumed search are not told again."""
        ...

    def end(self, verdict: str, message: str) -> None:
        """The search ended with this verdict."""
        ...


class CsvTracker:
    """Appends a line per evaluation; scores are log-ratios to the baseline, lower is better."""

    HEADER = (
        "benchmark", "target", "number", "origin", "outcome", "duplicate", "scores", "knobs", "digest", "seconds",
        "reason",
    )  # fmt: skip

    def __init__(self, path: str) -> None:
        self._path = Path(path or "evaluations.csv")
        self._search: tuple[str, str] = ("", "")

    def begin(self, benchmark: str, target: str, metrics: Sequence[str], parameters: Mapping[str, str]) -> None:
        self._search = (benchmark, target)
        self._metrics = tuple(metrics)
        if not self._path.exists():
            self._append(self.HEADER)

    def evaluated(self, number: int, candidate: Candidate, outcome: Evaluated) -> None:
        scores = dict(zip(self._metrics, outcome.scores, strict=False))
        self._append((
            *self._search, number, candidate.origin, outcome.failure or "ok", int(outcome.duplicate),
            json.dumps(scores), json.dumps(dict(candidate.knobs), sort_keys=True), outcome.digest,
            round(outcome.seconds, 3), outcome.reason,
        ))  # fmt: skip

    def end(self, verdict: str, message: str) -> None:
        """The file is complete after every line."""

    def _append(self, row: Sequence[object]) -> None:
        with self._path.open("a", newline="", encoding="utf-8") as handle:
            csv.writer(handle).writerow(row)


class MlflowTracker:
    """One MLflow run per search, one metric stream per objective: the score of each valid evaluation, and the best."""

    def __init__(self, uri: str) -> None:
        try:
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise EnvironmentFault(
                f"the tracker 'mlflow' needs MLflow, which is not installed: {install('mlflow')}"
            ) from error
        self._client: Any = MlflowClient(tracking_uri=uri or None)
        self._best: dict[str, float] = {}

    def begin(self, benchmark: str, target: str, metrics: Sequence[str], parameters: Mapping[str, str]) -> None:
        known = self._client.get_experiment_by_name("pytest-compileiq")
        experiment = known.experiment_id if known else self._client.create_experiment("pytest-compileiq")
        self._run = self._client.create_run(experiment, run_name=f"{benchmark} {target}").info.run_id
        self._metrics, self._best = tuple(_NOT_IN_A_NAME.sub("_", metric) for metric in metrics), {}
        for name, value in {**parameters, "benchmark": benchmark, "target": target}.items():
            self._client.log_param(self._run, name.replace("'", "").replace("--", ""), value[:500])

    def evaluated(self, number: int, candidate: Candidate, outcome: Evaluated) -> None:
        for metric, score in zip(self._metrics, outcome.scores, strict=False):
            self._best[metric] = min(score, self._best.get(metric, 0.0))
            self._client.log_metric(self._run, metric, score, step=number)
            self._client.log_metric(self._run, f"best_{metric}", self._best[metric], step=number)

    def end(self, verdict: str, message: str) -> None:
        """Close the run."""
        self._client.set_tag(self._run, "verdict", f"{verdict}: {message}"[:500])
        self._client.set_terminated(self._run)


class Trackers:
    """Several trackers as one; one that fails is reported and left out."""

    def __init__(self, trackers: Sequence[Tracker], say: Callable[[str], None]) -> None:
        self._trackers = list(trackers)
        self._say = say

    def tell(self, event: Literal["begin", "evaluated", "end"], *arguments: object) -> None:
        """Call the method ``event`` of each tracker."""
        for tracker in list(self._trackers):
            try:
                getattr(tracker, event)(*arguments)
            except Exception as error:  # a tracker's failure is not the search's
                self._trackers.remove(tracker)
                said = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
                self._say(f"the tracker {type(tracker).__name__} failed and is left out: {said}")


def make_tracker(text: str) -> Tracker:
    """The tracker of ``NAME`` or ``NAME:ARGUMENT``: ``csv:FILE``, ``mlflow:URI``, or a third party's.

    Raises:
        MarkerError: there is none of that name.
        EnvironmentFault: it needs a package that is not installed.
    """
    name, _, argument = text.partition(":")
    built_in: dict[str, Callable[[str], Tracker]] = {"csv": CsvTracker, "mlflow": MlflowTracker}
    if name in built_in:
        return built_in[name](argument)
    others = {point.name: point for point in entry_points(group=GROUP)}
    if name in others:
        tracker: Tracker = others[name].load()(argument)
        return tracker
    meant, more = did_you_mean(name, [*built_in, *others]), ", ".join(sorted(others)) or "no other"
    raise MarkerError(f"--tune-tracker={text!r}{meant}: expected csv:FILE, mlflow:URI or {more}")
