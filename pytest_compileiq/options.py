"""The command line and the ini keys → one frozen ``Settings``. Imports nothing heavy: every pytest run reads it."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_compileiq.config import (
    BATCH,
    DEFAULT_BUDGET,
    LOCKABLE_MHZ,
    OPTIONS_KEY,
    Budget,
    Settings,
    parse_budget,
    why_no_entries,
)
from pytest_compileiq.errors import UserError
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.system.printing import wrong_usage

if TYPE_CHECKING:
    from pytest_compileiq.model import LockClocks

_CHOICES: dict[str, tuple[str, ...]] = {
    "tune_reduce": ("true", "false"),
    "acf_check": ("auto", "replay", "measure", "rebuild", "off"),
    "acf_stale": ("fail", "warn"),
    "acf_missing": ("fail", "warn"),
    "acf_orphans": ("warn", "fail", "ignore"),
    "acf_no_device": ("replay", "skip", "fail"),
    "acf_inconclusive": ("warn", "fail"),
}
_OF_A_RAY_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # the variable is named so

_HELP: dict[str, str] = {
    "tune_reduce": "default of --tune-reduce",
    "acf_check": "checks of a normal run: auto measures where the device has a claim",
    "acf_stale": "effect of a stale artifact on its test",
    "acf_missing": "effect of a missing artifact on its test",
    "acf_orphans": "effect of artifacts without a test on a complete run",
    "acf_no_device": "without a device for the kernel",
    "acf_inconclusive": "effect of an undecided gate on its test",
}


def add_options(parser: pytest.Parser) -> None:
    """Declare the options and ini keys."""
    group = parser.getgroup("compileiq", "compiler tuning (pytest-compileiq)")
    group.addoption("--tune", action="store_true", help="search, prove and store; only tuned benchmarks run")
    group.addoption(
        "--tune-new-only", action="store_true", help="with --tune: skip benchmarks that have an artifact here"
    )
    group.addoption(
        "--tune-stale-only", action="store_true", help="with --tune: skip benchmarks whose artifact still holds here"
    )
    group.addoption("--tune-fresh", action="store_true", help="with --tune: ignore the journal and start a new search")
    group.addoption(
        "--tune-budget",
        metavar="N|TIME",
        help="evaluations, or wall time such as 30m, per benchmark; 0 proves the committed controls",
    )
    group.addoption(
        "--tune-total",
        metavar="N|TIME",
        help="evaluations, or wall time such as 8h, shared out over all benchmarks of the run; a time includes proofs",
    )
    group.addoption(
        "--tune-engine", metavar="NAME", help="auto, ga, compileiq, pack, grid, random, optuna:NAME, or your own"
    )
    group.addoption(
        "--tune-from",
        metavar="PATH",
        help="controls to try first: an artifact's .toml, a directory of ACFs, a booster pack (.zip)",
    )
    group.addoption(
        "--tune-tracker",
        action="append",
        default=[],
        metavar="NAME:ARGUMENT",
        help="log every evaluation to csv:FILE, mlflow:URI or a plugin's tracker (repeatable)",
    )
    group.addoption("--tune-seed", metavar="N", help="seed of the search")
    group.addoption(
        "--tune-draw",
        metavar="SEED",
        help="re-run the test with this acf.rng seed, using the committed controls or those of --tune-from",
    )
    group.addoption(
        "--tune-on",
        metavar="ray|HOST:PORT",
        help="with --tune: run workers on Ray; ray starts a local cluster, HOST:PORT joins a running one",
    )
    group.addoption("--tune-jobs", metavar="N", help="parallel builds")
    group.addoption(
        "--tune-reduce",
        action="store_true",
        default=None,
        help="drop controls without effect, then measure the effect of each remaining one",
    )
    group.addoption("--no-tune-reduce", action="store_false", dest="tune_reduce", help="store the winner unreduced")
    group.addoption("--acf-check", metavar="|".join(_CHOICES["acf_check"]), help=_HELP["acf_check"])
    group.addoption(
        "--acf-calibrate", metavar="N", help="run N A/A tests and store the gate's false-positive rate on this device"
    )
    group.addoption("--acf-report", metavar="FILE", help="write the JSON report")
    group.addoption("--acf-html", metavar="FILE", help="write a self-contained HTML report")
    group.addoption("--acf-adopt", action="store_true", help="keep the artifacts of moved or renamed tests")
    group.addoption("--acf-arms", metavar="DIR", help=argparse.SUPPRESS)  # for acf capture --validate
    parser.addini("acf_dir", "directory of the artifacts, relative to rootdir", default="acf")
    parser.addini(
        OPTIONS_KEY, "compiler options that controls files may hold beside the known ones", type="args", default=[]
    )
    parser.addini("tune_budget", "default of --tune-budget", default=str(DEFAULT_BUDGET))
    parser.addini("tune_engine", "default of --tune-engine", default="auto")
    parser.addini("tune_jobs", "default of --tune-jobs", default="")
    parser.addini("acf_lock_clocks", "the GPU's clocks while it is measured: off, base, or MHz", default="off")
    for key, choices in _CHOICES.items():
        parser.addini(key, f"{_HELP[key]}: {', '.join(choices)}", default=choices[0])


def read_settings(config: pytest.Config) -> Settings:
    """Read and check every option and ini key.

    Raises:
        pytest.UsageError: a value is not allowed; the message names the key, the value and the choices.
    """
    option = config.option
    if option.tune and _is_xdist(config):
        raise wrong_usage("--tune does not run under xdist: add -n 0")
    if option.tune_total is not None and not option.tune:
        raise wrong_usage("--tune-total requires --tune")
    if option.tune_total is not None and option.tune_budget is not None:
        raise wrong_usage(
            "--tune-total (all benchmarks together) and --tune-budget (each benchmark) exclude each other"
        )
    for name in ("tune_new_only", "tune_stale_only", "tune_fresh"):
        if getattr(option, name) and not option.tune:
            raise wrong_usage(f"--{name.replace('_', '-')} requires --tune")
    if option.tune and option.tune_draw is not None:
        raise wrong_usage("--tune-draw repeats one draw in a normal run: leave --tune out")
    if option.tune and option.acf_adopt:
        raise wrong_usage("--acf-adopt does not search: leave --tune out")
    chosen = {key: _choice(config, key) for key in _CHOICES}
    check = _known(option.acf_check, "acf_check", "--acf-check") if option.acf_check else chosen["acf_check"]
    if option.tune_draw is not None and check == "off":
        raise wrong_usage("--tune-draw runs tuned controls, and acf_check = off runs none: add --acf-check=auto")
    cli_budget = _budget(option.tune_budget, "--tune-budget") if option.tune_budget is not None else None
    return Settings(
        tune=option.tune,
        new_only=option.tune_new_only,
        stale_only=option.tune_stale_only,
        fresh=option.tune_fresh,
        budget=cli_budget,
        total=_total(option.tune_total),
        ini_budget=_budget(str(config.getini("tune_budget")), "tune_budget"),
        engine=option.tune_engine,
        start_from=Path(config.invocation_params.dir, option.tune_from) if option.tune_from else None,
        trackers=tuple(option.tune_tracker),
        calibrate=_integer(option.acf_calibrate, "--acf-calibrate", minimum=1),
        ini_engine=str(config.getini("tune_engine")),
        seed=_integer(option.tune_seed, "--tune-seed", minimum=0),
        draw=_integer(option.tune_draw, "--tune-draw", minimum=0),
        jobs=_integer(option.tune_jobs or config.getini("tune_jobs") or None, "--tune-jobs", minimum=1) or _cores(),
        reduce=chosen["tune_reduce"] == "true" if option.tune_reduce is None else option.tune_reduce,
        check=check,
        stale=chosen["acf_stale"],
        missing=chosen["acf_missing"],
        orphans=chosen["acf_orphans"],
        no_device=chosen["acf_no_device"],
        inconclusive=chosen["acf_inconclusive"],
        lock_clocks=_lock_clocks(config),
        where=_where(option.tune_on, searches=option.tune),
        acf_dir=_store_dir(config),
        options=_options(config),
        ini_file=config.inipath,
        report=Path(config.invocation_params.dir, option.acf_report) if option.acf_report else None,
        html=Path(config.invocation_params.dir, option.acf_html) if option.acf_html else None,
        adopt=option.acf_adopt,
        arms=Path(config.invocation_params.dir, option.acf_arms) if option.acf_arms else None,
        rootdir=config.rootpath,
    )


def _budget(text: str, where: str) -> Budget:
    try:
        return parse_budget(text, where)
    except UserError as error:
        raise wrong_usage(str(error)) from None


def _total(text: str | None) -> Budget | None:
    if text is None:
        return None
    try:
        total = parse_budget(text, "--tune-total", "a number of evaluations (4000) or a time (90s, 30m, 8h)")
    except UserError as error:
        raise wrong_usage(str(error)) from None
    if total.proof_only:
        raise wrong_usage("--tune-total=0 leaves nothing to search with: --tune-budget=0 proves committed controls")
    if total.evaluations is not None and total.evaluations < BATCH:
        raise wrong_usage(f"--tune-total={total.evaluations} is less than one batch of a search: give {BATCH} or more")
    return total


def _where(text: str | None, *, searches: bool) -> str | None:
    if text is None:
        return None
    if not searches:
        raise wrong_usage("--tune-on says where --tune has its workers: add --tune")
    if text.startswith("ray://"):
        raise wrong_usage(
            f"--tune-on={text!r} is Ray's client, whose driver runs where your acf/ is not: give the HOST:PORT that "
            "ray start --head printed, from a machine that holds the repository"
        )
    if _OF_A_RAY_JOB in os.environ:
        raise wrong_usage(
            "--tune-on within a Ray job: its working directory is a copy, and acf/ would be lost with it: run the same "
            "command on a machine that holds the repository"
        )
    if text != "ray" and not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^\s/:]+):[0-9]{1,5}", text):
        raise wrong_usage(f"--tune-on={text!r}: expected ray, or the HOST:PORT of a Ray cluster")
    return text


def _choice(config: pytest.Config, key: str) -> str:
    return _known(str(config.getini(key)).strip(), key, f"{config.inipath or 'ini'}: {key}")


def _known(value: str, key: str, where: str) -> str:
    known = _CHOICES[key]
    if value not in known:
        raise wrong_usage(f"{where} = {value!r}{did_you_mean(value, known)}: expected {', '.join(known)}")
    return value


def _lock_clocks(config: pytest.Config) -> LockClocks:
    value = str(config.getini("acf_lock_clocks")).strip()
    if value == "off":
        return None
    if value == "base":
        return "base"
    if re.fullmatch("[0-9]{3,5}", value) and int(value) in LOCKABLE_MHZ:
        return int(value)
    raise wrong_usage(
        f"{config.inipath or 'ini'}: acf_lock_clocks = {value!r}: expected off, base, or a number of MHz from "
        f"{LOCKABLE_MHZ[0]} to {LOCKABLE_MHZ[-1]}"
    )


def _integer(text: str | None, where: str, *, minimum: int) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,18}", str(text)) or int(text) < minimum:
        raise wrong_usage(f"{where}={text!r}: expected an integer of at least {minimum}")
    return int(text)


def _store_dir(config: pytest.Config) -> Path:
    value = str(config.getini("acf_dir"))
    path = config.rootpath / value
    if not value or not path.resolve().is_relative_to(config.rootpath.resolve()):
        raise wrong_usage(
            f"{config.inipath or 'ini'}: acf_dir = {value!r}: expected a directory under {config.rootpath}"
        )
    return path


def _is_xdist(config: pytest.Config) -> bool:
    return bool(getattr(config.option, "tx", None) or getattr(config.option, "numprocesses", None)) or hasattr(
        config, "workerinput"
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _options(config: pytest.Config) -> tuple[str, ...]:
    entries = tuple(config.getini(OPTIONS_KEY))
    if reason := why_no_entries(entries):
        raise wrong_usage(f"{config.inipath or 'ini'}: {OPTIONS_KEY}: {reason}")
    return entries
