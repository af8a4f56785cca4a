"""The command line and the ini keys → one frozen ``Settings``. Imports nothing heavy: every pytest run reads it."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from pytest_compileiq.model import LockClocks

_OF_A_RAY_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # the variable is named so

# ini key: its values, of which the first is the default; what it sets.
_CHOICES: dict[str, tuple[tuple[str, ...], str]] = {
    "tune_reduce": (("true", "false"), "default of --tune-reduce"),
    "acf_check": (
        ("auto", "replay", "measure", "rebuild", "off"),
        "checks of a normal run: auto measures where the device has a claim",
    ),
    "acf_stale": (("fail", "warn"), "effect of a stale artifact on its test"),
    "acf_missing": (("fail", "warn"), "effect of a missing artifact on its test"),
    "acf_orphans": (("warn", "fail", "ignore"), "effect of artifacts without a test on a complete run"),
    "acf_no_device": (("replay", "skip", "fail"), "without a device for the kernel"),
    "acf_inconclusive": (("warn", "fail"), "effect of an undecided gate on its test"),
}
_CHECKS, _CHECK_HELP = _CHOICES["acf_check"]
# option: its value (None: it is a switch), and help.
_OPTIONS: dict[str, tuple[str | None, str]] = {
    "--tune": (None, "search, prove and store; only tuned benchmarks run"),
    "--tune-new-only": (None, "with --tune: skip benchmarks that have an artifact here"),
    "--tune-stale-only": (None, "with --tune: skip benchmarks whose artifact still holds here"),
    "--tune-fresh": (None, "with --tune: ignore the journal and start a new search"),
    "--tune-budget": (
        "N|TIME", "evaluations, or wall time such as 30m, per benchmark; 0 proves the committed controls",
    ),
    "--tune-total": (
        "N|TIME",
        "evaluations, or wall time such as 8h, shared out over all benchmarks of the run; a time includes proofs",
    ),
    "--tune-engine": ("NAME", "auto, ga, compileiq, pack, grid, random, optuna:NAME, or your own"),
    "--tune-from": ("PATH", "controls to try first: an artifact's .toml, a directory of ACFs, a booster pack (.zip)"),
    "--tune-tracker": (
        "NAME:ARGUMENT", "log every evaluation to csv:FILE, mlflow:URI or a plugin's tracker (repeatable)",
    ),
    "--tune-seed": ("N", "seed of the search"),
    "--tune-draw": (
        "SEED", "re-run the test with this acf.rng seed, using the committed controls or those of --tune-from",
    ),
    "--tune-on": (
        "ray|HOST:PORT", "with --tune: run workers on Ray; ray starts a local cluster, HOST:PORT joins a running one",
    ),
    "--tune-jobs": ("N", "parallel builds"),
    "--tune-reduce": (None, "drop controls without effect, then measure the effect of each remaining one"),
    "--no-tune-reduce": (None, "store the winner unreduced"),
    "--acf-check": ("|".join(_CHECKS), _CHECK_HELP),
    "--acf-calibrate": ("N", "run N A/A tests and store the gate's false-positive rate on this device"),
    "--acf-report": ("FILE", "write the JSON report"),
    "--acf-html": ("FILE", "write a self-contained HTML report"),
    "--acf-adopt": (None, "keep the artifacts of moved or renamed tests"),
    "--acf-arms": ("DIR", argparse.SUPPRESS),  # for acf capture --validate
}  # fmt: skip
# Further arguments for argparse.
_MORE: dict[str, dict[str, Any]] = {
    "--tune-tracker": {"action": "append", "default": []},
    "--tune-reduce": {"default": None},
    "--no-tune-reduce": {"action": "store_false", "dest": "tune_reduce"},
}
_INI: tuple[tuple[str, str, Any], ...] = (  # key, help, default
    ("acf_dir", "directory of the artifacts, relative to rootdir", "acf"),
    (OPTIONS_KEY, "compiler options that controls files may hold beside the known ones", []),
    ("tune_budget", "default of --tune-budget", str(DEFAULT_BUDGET)),
    ("tune_engine", "default of --tune-engine", "auto"),
    ("tune_jobs", "default of --tune-jobs", ""),
    ("acf_lock_clocks", "the GPU's clocks while it is measured: off, base, or MHz", "off"),
    *((key, f"{text}: {', '.join(choices)}", choices[0]) for key, (choices, text) in _CHOICES.items()),
)


def add_options(parser: pytest.Parser) -> None:
    """Declare the options and ini keys."""
    group = parser.getgroup("compileiq", "compiler tuning (pytest-compileiq)")
    for option, (metavar, text) in _OPTIONS.items():
        takes = {"metavar": metavar} if metavar else {"action": "store_true"}
        group.addoption(option, help=text, **{**takes, **_MORE.get(option, {})})
    for key, text, default in _INI:
        kind: Any = "args" if isinstance(default, list) else None
        parser.addini(key, text, type=kind, default=default)


def read_settings(config: pytest.Config) -> Settings:
    """Read and check every option and ini key.

    Raises:
        pytest.UsageError: a value is not allowed; the message names the key, the value and the choices.
    """
    option = config.option
    is_xdist = hasattr(config, "workerinput") or any(getattr(option, name, None) for name in ("tx", "numprocesses"))
    if option.tune and is_xdist:
        raise _wrong("--tune does not run under xdist: add -n 0")
    if option.tune_total is not None and not option.tune:
        raise _wrong("--tune-total requires --tune")
    if option.tune_total is not None and option.tune_budget is not None:
        raise _wrong("--tune-total (all benchmarks together) and --tune-budget (each benchmark) exclude each other")
    for name in ("--tune-new-only", "--tune-stale-only", "--tune-fresh"):
        if config.getoption(name) and not option.tune:
            raise _wrong(f"{name} requires --tune")
    if option.tune and option.tune_draw is not None:
        raise _wrong("--tune-draw repeats one draw in a normal run: leave --tune out")
    if option.tune and option.acf_adopt:
        raise _wrong("--acf-adopt does not search: leave --tune out")
    chosen = {key: _choice(config, key) for key in _CHOICES}
    check = _known(option.acf_check, "acf_check", "--acf-check") if option.acf_check else chosen["acf_check"]
    options = tuple(config.getini(OPTIONS_KEY))
    if reason := why_no_entries(options):
        raise _wrong(f"{config.inipath or 'ini'}: {OPTIONS_KEY}: {reason}")
    if option.tune_draw is not None and check == "off":
        raise _wrong("--tune-draw runs tuned controls, and acf_check = off runs none: add --acf-check=auto")

    def path(given: str | None) -> Path | None:
        return Path(config.invocation_params.dir, given) if given else None

    return Settings(
        tune=option.tune,
        new_only=option.tune_new_only,
        stale_only=option.tune_stale_only,
        fresh=option.tune_fresh,
        budget=None if option.tune_budget is None else _budget(option.tune_budget, "--tune-budget"),
        total=_total(option.tune_total),
        ini_budget=_budget(str(config.getini("tune_budget")), "tune_budget"),
        engine=option.tune_engine,
        start_from=path(option.tune_from),
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
        options=options,
        ini_file=config.inipath,
        report=path(option.acf_report),
        html=path(option.acf_html),
        adopt=option.acf_adopt,
        arms=path(option.acf_arms),
        rootdir=config.rootpath,
    )


def _budget(text: str, where: str, *expected: str) -> Budget:
    try:
        return parse_budget(text, where, *expected)
    except UserError as error:
        raise _wrong(str(error)) from None


def _total(text: str | None) -> Budget | None:
    if text is None:
        return None
    total = _budget(text, "--tune-total", "a number of evaluations (4000) or a time (90s, 30m, 8h)")
    if total.proof_only:
        raise _wrong("--tune-total=0 leaves nothing to search with: --tune-budget=0 proves committed controls")
    if total.evaluations is not None and total.evaluations < BATCH:
        raise _wrong(f"--tune-total={total.evaluations} is less than one batch of a search: give {BATCH} or more")
    return total


def _where(text: str | None, *, searches: bool) -> str | None:
    if text is None:
        return None
    if not searches:
        raise _wrong("--tune-on says where --tune has its workers: add --tune")
    if text.startswith("ray://"):
        raise _wrong(
            f"--tune-on={text!r} is Ray's client, whose driver runs where your acf/ is not: give the HOST:PORT that "
            "ray start --head printed, from a machine that holds the repository"
        )
    if _OF_A_RAY_JOB in os.environ:
        raise _wrong(
            "--tune-on within a Ray job: its working directory is a copy, and acf/ would be lost with it: run the same "
            "command on a machine that holds the repository"
        )
    if text != "ray" and not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^\s/:]+):[0-9]{1,5}", text):
        raise _wrong(f"--tune-on={text!r}: expected ray, or the HOST:PORT of a Ray cluster")
    return text


def _choice(config: pytest.Config, key: str) -> str:
    return _known(str(config.getini(key)).strip(), key, f"{config.inipath or 'ini'}: {key}")


def _known(value: str, key: str, where: str) -> str:
    known, _ = _CHOICES[key]
    if value not in known:
        from pytest_compileiq.spelling import did_you_mean

        raise _wrong(f"{where} = {value!r}{did_you_mean(value, known)}: expected {', '.join(known)}")
    return value


def _lock_clocks(config: pytest.Config) -> LockClocks:
    value = str(config.getini("acf_lock_clocks")).strip()
    if value == "off":
        return None
    if value == "base":
        return "base"
    if re.fullmatch("[0-9]{3,5}", value) and int(value) in LOCKABLE_MHZ:
        return int(value)
    raise _wrong(
        f"{config.inipath or 'ini'}: acf_lock_clocks = {value!r}: expected off, base, or a number of MHz from "
        f"{LOCKABLE_MHZ[0]} to {LOCKABLE_MHZ[-1]}"
    )


def _integer(text: str | None, where: str, *, minimum: int) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,18}", str(text)) or int(text) < minimum:
        raise _wrong(f"{where}={text!r}: expected an integer of at least {minimum}")
    return int(text)


def _store_dir(config: pytest.Config) -> Path:
    value = str(config.getini("acf_dir"))
    path = config.rootpath / value
    if not value or not path.resolve().is_relative_to(config.rootpath.resolve()):
        raise _wrong(f"{config.inipath or 'ini'}: acf_dir = {value!r}: expected a directory under {config.rootpath}")
    return path


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _wrong(message: str) -> BaseException:
    from pytest_compileiq.system.printing import wrong_usage  # only on the way to an error

    return wrong_usage(message)
