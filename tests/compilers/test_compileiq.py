"""NVIDIA's CompileIQ as an engine: what it draws, and what it says where it cannot."""

from __future__ import annotations

import pytest

from pytest_compileiq.engines import compileiq
from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.registry import make
from pytest_compileiq.errors import EnvironmentFault, MarkerError
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Predicate, Space, Where
from pytest_compileiq.space import range as steps
from pytest_compileiq.testing import SLIVER_SPACE
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_draws_outside_of_where_are_never_given_and_a_checkpoint_goes_on_where_it_was():
    brief = Brief(SLIVER_SPACE, 1, options={"pool_size": 6})
    engine = make("compileiq", brief)
    engine.tell([Told(candidate, (0.1,)) for candidate in engine.ask(2)])
    state = engine.checkpoint()
    given = [engine.ask(2) for _ in range(2)]
    again = make("compileiq", brief)
    again.restore(state)
    assert [again.ask(2) for _ in range(2)] == given
    assert given[0] and all(SLIVER_SPACE.why_not(candidate.knobs) is None for candidate in given[0])


def test_what_where_refuses_whatever_is_drawn_is_one_sentence(monkeypatch):
    monkeypatch.setattr(compileiq, "_MOST_REFUSED", 12)
    space = Space.from_mapping({"n": steps(0, 10**6)}).bounded(Where((Predicate(lambda k: k["n"] == 7, "n == 7", ""),)))
    with pytest.raises(MarkerError, match=r"drew \d+ candidates, and where= refuses each of them: .*--tune-engine=ga"):
        make("compileiq", Brief(space, 1)).ask(4)
