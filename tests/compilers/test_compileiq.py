"""NVIDIA's CompileIQ as an engine: what it draws, and what it says where it cannot."""

from __future__ import annotations

import pytest

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.registry import make
from pytest_compileiq.errors import EnvironmentFault, MarkerError
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Space
from tests import needs
from tests.examples import MIXED, OPAQUE

pytestmark = needs.compileiq


@needs.search_spaces
@pytest.mark.parametrize("space", [OPAQUE, MIXED, Space(MIXED.genes)], ids=["opaque", "mixed", "open"])
def test_compileiq_draws_from_the_space_takes_scores_and_failures_and_goes_on(space):
    engine = make("compileiq", Brief(space, 1, seeds=[Candidate({}, b"previous winner")], options={"pool_size": 6}))
    assert engine.ask(4) == [Candidate({}, b"previous winner")]
    seen = []
    for _ in range(5):
        asked = engine.ask(4)
        seen += asked
        engine.tell(
            [
                Told(asked[0], (0.1,)),
                Told(asked[1], failure="crash"),
                *(Told(candidate, (-0.2,)) for candidate in asked[2:]),
            ]
        )
    assert len(seen) == 20
    assert all(space.why_not(candidate.knobs) is None for candidate in seen)
    assert all((candidate.blob is not None) == (space.opaque is not None) for candidate in seen)
    if space.opaque:
        assert len({candidate.blob for candidate in seen}) > 10


@needs.search_spaces
def test_compileiq_takes_several_objectives():
    engine = make("compileiq", Brief(OPAQUE, 1, n_objectives=2))
    asked = engine.ask(3)
    engine.tell([Told(asked[0], (0.1, -0.2)), Told(asked[1], failure="wrong"), Told(asked[2], (0.0, 0.3))])
    assert engine.ask(1)


def test_a_search_space_that_cannot_be_had_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("CIQ_SEARCH_SPACES_DIR", str(tmp_path))
    with pytest.raises(
        EnvironmentFault, match=r"CompileIQ's ptxas 13\.3 space .* cannot be had: .*CIQ_SEARCH_SPACES_DIR"
    ):
        make("compileiq", Brief(OPAQUE, 1))


@pytest.mark.parametrize("options", [{"pool_size": 5}, {"generations": 0}, {"mutate_rate": 0.5}, {"pool_size": True}])
def test_compileiq_s_options_are_checked(options):
    with pytest.raises(MarkerError, match="engine 'compileiq'"):
        make("compileiq", Brief(OPAQUE, 1, options=options))
