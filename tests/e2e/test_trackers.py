"""Every evaluation told to others: CSV, MLflow, and trackers that break."""

from __future__ import annotations

import csv
import importlib.util
import json

import pytest

from tests.examples import SIZE_PY, SUM_C
from tests.projects import Project


@pytest.fixture
def made(project) -> Project:
    return project({"sum.c": SUM_C, "test_sum.py": SIZE_PY.replace("time.sleep(0.02)", "pass")})


def test_every_evaluation_is_a_line_of_the_csv(made):
    made.pytest("--tune", "--tune-budget=12", "--tune-tracker=csv:all.csv", code=0)
    with (made.root / "all.csv").open(newline="") as handle:
        lines = list(csv.DictReader(handle))
    assert [int(line["number"]) for line in lines] == list(range(12))
    assert {line["benchmark"] for line in lines} == {"total"}
    assert lines[0]["knobs"] == "{}"
    for line in lines:
        assert line["outcome"] in ("ok", "compile")
        assert line["outcome"] != "ok" or json.loads(line["scores"]).keys() == {"code_bytes"}


def test_a_tracker_that_breaks_is_said_once_and_costs_the_search_nothing(made):
    output = made.pytest("--tune", "--tune-budget=8", "--tune-tracker=csv:nowhere/all.csv", code=0)
    assert output.count("the tracker CsvTracker failed and is left out: FileNotFoundError") == 1
    assert "8 evaluations" in output


def test_an_unknown_tracker_is_refused_with_those_that_exist(made):
    output = made.pytest("--tune", "--tune-tracker=wandb:x", code=1)
    assert "--tune-tracker='wandb:x': expected csv:FILE, mlflow:URI" in output


@pytest.mark.skipif(
    importlib.util.find_spec("mlflow") is None, reason="no MLflow: pip install 'pytest-compileiq[mlflow]'"
)
@pytest.mark.filterwarnings("ignore")  # of the libraries under MLflow
def test_mlflow_gets_one_run_a_search_and_a_stream_an_objective(made):
    store = f"sqlite:///{made.root}/mlflow.db"
    made.pytest("--tune", "--tune-budget=12", f"--tune-tracker=mlflow:{store}", code=0)
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=store)
    experiment = client.get_experiment_by_name("pytest-compileiq")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["benchmark"] == "total"
    assert run.data.tags["verdict"].startswith("TUNED")
    best = [point.value for point in client.get_metric_history(run.info.run_id, "best_code_bytes")]
    assert best == sorted(best, reverse=True)
    assert best[-1] < 0
