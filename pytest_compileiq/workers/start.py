"""How a worker's pytest is configured: as its parent is, but it reports to nobody and neither orders nor repeats tests.

Both ends are here: what the parent sends, and the configuration that a worker makes of it. Every plugin of the parent
is loaded in a worker too, since a project may depend on it by a setting, a marker, a hook or a fixture. Those that do
the wrong thing in a worker are then taken out, before they act.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from pytest_compileiq.timing.clock import MACHINE
from pytest_compileiq.workers.messages import Start, can_be_sent

_DROPPED_OPTIONS = (
    "basetemp", "keyword", "markexpr", "lf", "failedfirst", "newfirst", "cacheclear", "stepwise", "deselect", "xmlpath",
    "tune", "tune_total", "tune_new_only", "tune_stale_only", "tune_fresh", "tune_from", "tune_draw",
    "tune_on", "acf_calibrate", "acf_report", "acf_html", "acf_arms", "collectonly", "numprocesses", "maxprocesses",
    "dist", "distload", "tx", "looponfail", "maxfail",
    "usepdb", "trace", "durations", "cov_source", "cov_report", "no_cov", "pastebin", "setuponly", "setupshow",
    "reruns", "randomly_seed", "file_or_dir", "help", "version",
)  # fmt: skip
# They report to a person, order, repeat or distribute tests, or (the last two) look at the end for errors that nobody
# saw. Of the cache, only what remembers the last run is out: fixtures may keep things in it.
OUT_OF_WORKERS = (
    "terminal", "lfplugin", "nfplugin", "stepwise", "randomly", "xdist", "xdist.plugin", "rerunfailures",
    "unraisableexception", "threadexception",
)  # fmt: skip
_PATHS = ("rootdir", "confcutdir", "inifilename")
# Variables that make a process another tool's worker, or that add options to a run.
_FOREIGN = ("PYTEST_XDIST_", "COV_", "PYTEST_ADDOPTS")
LIBRARIES = (
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    *site.getsitepackages(), site.getusersitepackages(),
)  # fmt: skip
_ZIPPED = f"python{sys.version_info.major}{sys.version_info.minor}.zip"


def start_of(config: pytest.Config, nodeids: Sequence[str]) -> Start:
    """What the workers of this run begin with, to collect ``nodeids``."""
    directory, root = config.invocation_params.dir, config.rootpath
    options = {
        key: value for key, value in vars(config.option).items() if key not in _DROPPED_OPTIONS and can_be_sent(value)
    }
    for key in _PATHS:
        if options.get(key):
            options[key] = os.path.relpath(directory / options[key], directory)
    return Start(
        directory=os.path.relpath(directory, root),
        tests=tuple(nodeids),
        options=options,
        markers=tuple(config.getini("markers")),
        import_path=_import_path(root),
        environment={key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
        | {"PYTHONUNBUFFERED": "1"},
    )


def enter_project(start: Start, root: Path) -> None:
    """Give this process the directory and the import path of the parent."""
    os.chdir(root / start.directory)
    own = [entry for entry in sys.path if _is_own(entry, root)]
    path: list[str] = []
    for entry in start.import_path:
        path += own if entry is None else [os.path.normpath(root / entry)]
    sys.path[:] = path


def worker_config(start: Start, root: Path) -> pytest.Config:
    """The parent's configuration for its tests, ready to run."""
    options = start.options | {"capture": "no"}
    # As arguments: from the options they would load too late to add options of their own.
    plugins = [f"-p{name}" for name in msgspec.convert(options.pop("plugins", []), list[str])]
    tests = [f"{root}{os.sep}{nodeid}" for nodeid in start.tests]
    config = pytest.Config.fromdictargs(options, [*plugins, *tests])
    config.args = tests
    for name in OUT_OF_WORKERS:
        config.pluginmanager.set_blocked(name)
        config.pluginmanager.set_blocked(f"pytest_{name}")
    for marker in start.markers:  # those of a plugin that is out, too
        config.addinivalue_line("markers", marker)
    return config


def environment_on(node: Mapping[str, str], sent: Mapping[str, str]) -> dict[str, str]:
    """The environment of a worker on a machine whose own is ``node``, with what the driver ``sent``."""
    # What that machine was set up with wins: it says where its compilers, libraries and caches are, and which devices
    # it lends. What the driver has besides may decide what a test does, and fills in, unless it names places of the
    # driver's machine, or that machine itself. No candidate has the cluster's token, which runs code on every node.
    filling = {
        key: value
        for key, value in sent.items()
        if key != MACHINE and not any(Path(part).is_absolute() for part in value.split(os.pathsep))
    }
    return {key: value for key, value in {**filling, **node}.items() if not key.startswith((*_FOREIGN, "RAY_"))}


def _import_path(root: Path) -> tuple[str | None, ...]:
    """``sys.path`` with what every process of this interpreter has as one entry, and the rest relative to ``root``."""
    entries = [None if _is_own(entry, root) else os.path.relpath(entry or os.curdir, root) for entry in sys.path]
    return tuple(dict.fromkeys(entries))


def _is_own(entry: str, root: Path) -> bool:
    """Whether every process of this interpreter and environment has ``entry``, on whatever machine it is."""
    if entry.startswith(LIBRARIES) or Path(entry).name == _ZIPPED:
        return True
    # What lies in the project is not at the same path on every machine.
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return entry != "" and entry in given and not Path(entry).is_relative_to(root)
