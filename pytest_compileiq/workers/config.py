"""How a worker's pytest is configured: as its parent is, but it tells nobody, and neither orders nor repeats tests.

Both ends are here: what the parent sends, and the configuration that a worker makes of it. Every plugin of the parent
is loaded in a worker too, since a project may depend on it by a setting, a marker, a hook or a fixture. Those that do
the wrong thing in a worker are taken out after that, before they act.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

_DROPPED_OPTIONS = (
    "basetemp", "keyword", "markexpr", "lf", "failedfirst", "newfirst", "cacheclear", "stepwise", "deselect", "xmlpath",
    "tune", "tune_new_only", "tune_stale_only", "tune_fresh", "tune_from", "acf_calibrate", "acf_report", "acf_html",
    "collectonly", "numprocesses", "maxprocesses", "dist", "distload", "tx", "looponfail", "maxfail",
    "usepdb", "trace", "durations", "cov_source", "cov_report", "no_cov", "pastebin", "setuponly", "setupshow",
    "reruns", "randomly_seed", "file_or_dir", "help", "version",
)  # fmt: skip
# They tell a person something, order, repeat or distribute tests, or (the last two) look for what went wrong unseen at
# the end. Of the cache only what remembers the last run is out: fixtures may keep things in it.
OUT_OF_WORKERS = (
    "terminal", "lfplugin", "nfplugin", "stepwise", "randomly", "xdist", "xdist.plugin", "rerunfailures",
    "unraisableexception", "threadexception",
)  # fmt: skip


def start_message(config: pytest.Config) -> dict[str, Any]:
    """What ``worker_config`` makes a configuration of, as JSON: the parent's options, markers and directory."""
    options = {
        key: value for key, value in vars(config.option).items() if key not in _DROPPED_OPTIONS and _is_json(value)
    }
    return {"cwd": str(config.invocation_params.dir), "options": options, "markers": list(config.getini("markers"))}


def worker_config(message: Mapping[str, Any], args: list[str]) -> pytest.Config:
    """The parent's configuration for the tests ``args``, ready to run.

    Raises:
        Exception: whatever a plugin or a conftest.py raises when it is loaded.
    """
    options = message["options"] | {"capture": "no"}
    # As arguments, since options are too late for a plugin to be asked for its own.
    plugins = [f"-p{name}" for name in options.pop("plugins", [])]
    config = pytest.Config.fromdictargs(options, [*plugins, *args])
    config.args = args
    for name in OUT_OF_WORKERS:
        config.pluginmanager.set_blocked(name)
        config.pluginmanager.set_blocked(f"pytest_{name}")
    for marker in message["markers"]:  # of a plugin that is out, too
        config.addinivalue_line("markers", marker)
    return config


def _is_json(value: object) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False
