"""What the build cache gives is what a rebuild gives, whatever happens; ``bench/build_cache.py`` plays thousands."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest

from bench.build_cache import play_cc, play_toy

SEEDS = 12


def test_random_schedules_end_as_a_rebuild(tmp_path):
    said = Counter[str]()
    for seed in range(SEEDS):
        play_toy(seed, said, tmp_path)
    assert min(said["from the cache"], said["built"]) > SEEDS


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_random_schedule_with_a_compiler_ends_as_a_rebuild(tmp_path, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    said = Counter[str]()
    play_cc(0, said, tmp_path, compiler=compiler)
    assert said["built"] and said["from the cache"]
