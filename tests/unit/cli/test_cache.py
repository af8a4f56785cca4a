"""`acf cache` on what is not kept."""

from __future__ import annotations

import pytest

from pytest_compileiq.cli.main import main
from pytest_compileiq.store.build_cache import BuildCache


@pytest.mark.parametrize(("count", "told"), [(1, "1 build is not kept"), (2, "2 builds are not kept")])
def test_builds_that_are_not_kept_are_counted_with_their_reason(tmp_path, monkeypatch, capsys, count, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").touch()
    for number in range(count):
        BuildCache(tmp_path).note(f"build-{number}", "-flto is not modelled")
    assert main(["cache"]) == 0
    said = capsys.readouterr().out
    assert f"{told}, and made in every run:\n  {count} × -flto is not modelled" in said
