"""What the ini file says becomes a setting, or a usage error that names the choices."""

from __future__ import annotations

import pytest

from pytest_compileiq.config import Settings
from pytest_compileiq.options import read_settings
from pytest_compileiq.testing.fakes import fake_settings


class Configured:
    """This run's configuration with other ini values."""

    def __init__(self, config: pytest.Config, **ini: str):
        self._config, self._ini = config, ini

    def __getattr__(self, name: str):
        return getattr(self._config, name)

    def getini(self, name: str):
        return self._ini.get(name) or self._config.getini(name)


@pytest.mark.parametrize(
    ("value", "setting"), [("off", None), ("base", "base"), (" 1500 ", 1500), ("100", 100), ("10000", 10000)]
)
def test_clocks_are_locked_at_the_base_or_at_a_number_of_megahertz(pytestconfig, value, setting):
    assert read_settings(Configured(pytestconfig, acf_lock_clocks=value)).lock_clocks == setting


def test_every_setting_that_is_declared_is_read_and_no_other(pytestconfig, tmp_path):
    for settings in (read_settings(pytestconfig), fake_settings(tmp_path)):
        assert set(vars(settings)) == set(Settings.__annotations__)
        with pytest.raises(AttributeError, match="settings are frozen: seed"):
            settings.seed = 1


def test_clocks_come_as_they_come_unless_told(pytestconfig):
    assert read_settings(pytestconfig).lock_clocks is None


@pytest.mark.parametrize("value", ["99", "10001", "1.5e3", "1500 MHz", "-1500", "on", "tdp", "١٥٠٠"])
def test_another_value_is_a_usage_error_that_says_what_is_expected(pytestconfig, value):
    with pytest.raises(pytest.UsageError, match=r"acf_lock_clocks = .*: expected off, base, or .* from 100 to 10000"):
        read_settings(Configured(pytestconfig, acf_lock_clocks=value))


@pytest.mark.parametrize(("value", "reduces"), [("", True), ("true", True), ("false", False)])
def test_winners_are_reduced_unless_told(pytestconfig, value, reduces):
    assert read_settings(Configured(pytestconfig, tune_reduce=value)).reduce is reduces


def test_a_reduction_that_is_neither_on_nor_off_is_a_usage_error(pytestconfig):
    with pytest.raises(pytest.UsageError, match="tune_reduce = 'yes': expected true, false"):
        read_settings(Configured(pytestconfig, tune_reduce="yes"))


def test_a_draw_of_tuned_controls_is_refused_where_no_controls_are_run(pytestconfig, monkeypatch):
    monkeypatch.setattr(pytestconfig.option, "tune_draw", "3")
    assert read_settings(pytestconfig).draw == 3
    with pytest.raises(pytest.UsageError, match="--tune-draw runs tuned controls, and acf_check = off runs none"):
        read_settings(Configured(pytestconfig, acf_check="off"))
