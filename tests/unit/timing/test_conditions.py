"""What Linux says of its processor's clock, from files like its own."""

from __future__ import annotations

import os

import pytest

from pytest_compileiq.timing import conditions
from pytest_compileiq.timing.conditions import Others, busy_machine, cpu_conditions


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
