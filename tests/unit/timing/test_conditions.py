"""What surrounds a measurement: the processor's clock, what others use of it, the variables that a run reads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pytest_compileiq.timing import conditions
from pytest_compileiq.timing.conditions import (
    Others,
    Process,
    ProcessorTimes,
    busy_machine,
    cpu_conditions,
    others_between,
    others_in,
    run_environment,
)


@pytest.mark.parametrize(
    ("files", "load", "said"),
    [
        ({"cpu0/cpufreq/scaling_governor": "performance\n", "intel_pstate/no_turbo": "1\n"}, 0.5, []),
        ({"cpu0/cpufreq/scaling_governor": "powersave\n"}, 0.5, ["governor is 'powersave'"]),
        ({"intel_pstate/no_turbo": "0\n"}, 0.5, ["may boost"]),
        ({"cpufreq/boost": "1\n"}, 0.5, ["may boost"]),
        ({}, 3.0, ["other processes (cc1plus, ld) keep 1.5 of 2 cores busy: stop them"]),
        ({}, 0.5, []),
    ],
)
def test_each_condition_is_one_sentence_and_only_when_it_matters(tmp_path, monkeypatch, files, load, said):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(conditions, "others_in", lambda window_s: Others(1.5, ("cc1plus", "ld")))
    found = cpu_conditions(tmp_path)
    assert len(found) == len(said)
    assert all(part in sentence for part, sentence in zip(said, found, strict=True))


@pytest.mark.parametrize("others", [None, Others(0.4, ())])
def test_the_load_of_a_search_itself_is_no_busy_machine(monkeypatch, others):
    monkeypatch.setattr(os, "getloadavg", lambda: (9.0, 9.0, 9.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(conditions, "others_in", lambda window_s: others)
    assert busy_machine() == []


BEFORE = ProcessorTimes(
    1000,
    {
        1: Process(0, "init", 5, 0),
        7: Process(1, "pytest", 100, 10),
        8: Process(7, "python", 50, 0),
        9: Process(8, "gcc", 1, 0),
        20: Process(1, "make", 3, 400),
    },
)


def test_own_descendants_and_what_they_waited_for_are_no_others():
    after = ProcessorTimes(
        1018,
        {
            1: Process(0, "init", 5, 0),
            7: Process(1, "pytest", 102, 10),
            8: Process(7, "python", 55, 6),  # 9 has ended, and 8 waited for it
            11: Process(8, "cc1", 5, 0),
            20: Process(1, "make", 3, 400),
        },
    )
    assert others_between(BEFORE, after, 10, own=7) == Others(0.0, ())


def test_others_are_counted_with_those_that_are_not_seen_and_named_by_their_share():
    after = ProcessorTimes(
        1037,
        {
            1: Process(0, "init", 6, 0),
            7: Process(1, "pytest", 105, 10),
            20: Process(1, "make", 3, 410),
            21: Process(20, "cc1plus", 9, 0),
            23: Process(20, "cc1plus", 7, 0),
            22: Process(20, "as", 2, 0),
        },
    )
    assert others_between(BEFORE, after, 10, own=7) == Others(3.2, ("cc1plus", "as"))


def test_this_machine_says_what_it_does():
    assert others_in(0.0001) is not None


def test_what_libraries_read_at_run_time_is_told_by_value_and_a_preloaded_file_by_name(monkeypatch):
    for name in run_environment():
        monkeypatch.delenv(name)
    for name, value in {"OMP_NUM_THREADS": "3", "GLIBC_TUNABLES": "x", "MALLOC_ARENA_MAX": "", "HOME": "/x"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LD_PRELOAD", "/home/a/one.so:/opt/two.so")
    assert run_environment() == {"GLIBC_TUNABLES": "x", "LD_PRELOAD": "one.so two.so", "OMP_NUM_THREADS": "3"}


def test_a_search_adds_nothing_to_it():
    code = (
        "from pytest_compileiq.timing.conditions import run_environment as told\n"
        "before = told()\nfrom pytest_compileiq.search.loop import one_thread\n"
        "with one_thread(): pass\nimport pytest_compileiq.engines.ga.engine\nassert told() == before, told()\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
