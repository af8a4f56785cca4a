"""What explains a search, against objectives whose every effect is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student_t

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.ga import explanation
from pytest_compileiq.engines.ga.encoding import Encoding
from pytest_compileiq.engines.ga.explanation import FEWEST_SCORED, Explanation, explain
from pytest_compileiq.engines.ga.process import GaussianProcess, Hyper
from pytest_compileiq.engines.registry import make
from pytest_compileiq.space import OFF, Predicate, Space, Where, choice, literal

FLAGS = 20
SPACE = Space.from_mapping(
    {f"-f{at}": literal("", knockout_prob=0.5) for at in range(FLAGS)} | {"-p=": choice([1, 2, 4], knockout_prob=0.5)}
)
ADDITIVE = np.array([-0.3, -0.2, -0.1, 0.1, 0.2, *[0.0] * (FLAGS - 5)])  # of each flag that is on
OF_VALUE = np.array([0.0, -0.05, -0.15, 0.05])  # of ``-p=``, off first


def additive(point) -> float:
    on = np.asarray(point[:FLAGS]) != OFF
    return float(ADDITIVE[on].sum() + OF_VALUE[point[FLAGS] + 1])


def searched(engine: str, evaluations: int, *, seed: int = 0, noise: float = 0.0, score=additive, space=SPACE):
    """Points and scores of a search, in the order told."""
    asking, source = make(engine, Brief(space, seed, 1, evaluations)), np.random.default_rng(seed)
    points, scores = [], []
    while len(points) < evaluations and (asked := asking.ask(4)):
        told = []
        for candidate in asked:
            points.append(space.point(candidate.knobs))
            scores.append(score(points[-1]) + noise * source.standard_normal())
            told.append(Told(candidate, (scores[-1],)))
        asking.tell(told)
    return np.array(points, dtype=np.int64), np.array(scores)


def truths(told: Explanation, points, scores) -> np.ndarray:
    """What the best point really loses by each effect's other option."""
    best = points[int(np.nanargmin(scores))]
    others = [np.where(np.arange(len(best)) == effect.gene, effect.instead, best) for effect in told.effects]
    return np.array([additive(other) - additive(best) for other in others])


@pytest.mark.parametrize(("engine", "noise"), [("random", 0.0), ("random", 0.02), ("ga", 0.0), ("ga", 0.02)])
def test_known_effects_lie_in_their_simultaneous_intervals_and_in_their_order(engine, noise):
    reach = student_t.ppf(1 - 0.05 / 2 / (FLAGS + 1), 120)
    held, named = 0, 0
    for seed in range(3):
        points, scores = searched(engine, 120, seed=seed, noise=noise)
        told = explain(SPACE, points, scores)
        loss, deviation = (
            np.array([getattr(effect, name) for effect in told.effects]) for name in ("loss", "deviation")
        )
        true = truths(told, points, scores)
        held += bool((abs(loss - true) <= reach * deviation).all())
        apart = abs(loss) > reach * deviation
        assert not apart[abs(true) < 1e-9].any(), "a knob without effect is told apart from none"
        assert (np.sign(loss) == np.sign(true))[apart].all()
        assert np.argmax(true) == np.argmax(loss)
        named += int(apart[true > 0.15].sum())
    assert held == 3  # 95 % is stated
    assert named >= 3  # of 9 to 12 that are large


def test_of_noise_alone_no_knob_is_told_apart():
    told = [explain(SPACE, *searched("ga", 100, seed=seed, noise=0.1, score=lambda _: 0.0)) for seed in range(3)]
    for effect in (effect for each in told for effect in each.effects):
        assert abs(effect.loss) < student_t.ppf(1 - 0.025 / 21, 100) * effect.deviation


@pytest.mark.parametrize("engine", ["random", "ga"])
def test_nine_scores_of_ten_lie_within_the_band_that_was_expected(engine):
    held = []
    for seed in range(3):
        points, scores = searched(engine, 150, seed=seed, noise=0.02)
        told = explain(SPACE, points, scores)
        known = ~np.isnan(told.expected)
        assert known.sum() > 130
        assert np.corrcoef(told.expected[known], scores[known])[0, 1] > 0.5
        held.append(np.mean(abs(scores - told.expected)[known] <= 1.645 * told.deviation[known]))
    assert 0.85 <= np.mean(held) <= 0.99


def test_what_was_expected_knows_nothing_of_what_came_later():
    points, scores = searched("random", 80)
    told = explain(SPACE, points, scores)
    otherwise = explain(SPACE, points, np.append(scores[:40], -scores[40:]))
    assert np.array_equal(told.expected[:44], otherwise.expected[:44], equal_nan=True)  # 40 to 43 are one stretch
    assert not np.array_equal(told.expected[44:], otherwise.expected[44:])


def test_the_same_history_is_explained_alike():
    points, scores = searched("ga", 60, noise=0.02)
    one, other = explain(SPACE, points, scores), explain(SPACE, points, scores)
    assert one.effects == other.effects and np.array_equal(one.expected, other.expected, equal_nan=True)


def test_a_difference_follows_from_the_joint_posterior():
    encoding = Encoding.of(SPACE)
    points, scores = searched("random", 30)
    hyper = Hyper.prior(len(SPACE.genes))
    told, asked = encoding.features(points[:24]), encoding.features(points[24:30])
    standard = (scores[:24] - scores[:24].mean()) / scores[:24].std()
    mean, deviation = GaussianProcess(encoding, told, standard, hyper).difference(asked[:3], asked[3:])

    def kernel(left, right):
        return np.exp(-np.abs(left[:, None, :] - right[None, :, :]) @ encoding.weights(np.exp(hyper.log_weights)))

    covariance = kernel(told, told) + (np.exp(hyper.log_noise) + 1e-8) * np.eye(24)
    variance = standard @ np.linalg.solve(covariance, standard) / 24
    joint = kernel(asked, asked) - kernel(asked, told) @ np.linalg.solve(covariance, kernel(told, asked))
    predicted = kernel(asked, told) @ np.linalg.solve(covariance, standard)
    for at in range(3):
        step = np.eye(6)[at] - np.eye(6)[at + 3]
        assert mean[at] == pytest.approx(step @ predicted)
        assert deviation[at] == pytest.approx(np.sqrt(variance * step @ joint @ step))


# ── what histories may hold ──────────────────────────────────────────────────────────────────────────────────────


def test_failures_have_no_score_and_teach_nothing():
    points, scores = searched("random", 60)
    failed = np.where(np.arange(60) % 3 == 0, np.nan, scores)
    told = explain(SPACE, points, failed)
    assert told.effects and np.isfinite(told.expected[30:]).all()
    alone = explain(SPACE, points[~np.isnan(failed)], failed[~np.isnan(failed)])
    assert {effect.gene: effect.option for effect in told.effects} == {each.gene: each.option for each in alone.effects}


@pytest.mark.parametrize("scores", [np.full(40, np.nan), np.zeros(40), np.append(np.full(31, np.nan), np.arange(9.0))])
def test_of_too_little_nothing_is_said(scores):
    assert np.isfinite(scores).sum() in (0, 40, FEWEST_SCORED - 1)
    told = explain(SPACE, searched("random", 40)[0], scores)
    assert told.effects == () and np.isnan(told.expected).all()


def test_one_knob_that_is_always_on_is_compared_with_what_was_tried_most():
    space = Space.from_mapping({"block": choice([8, 16, 32])})
    points = np.array([[0], [1], [2], [2]] * 5)
    told = explain(space, points, np.array([3.0, 1.0, 2.0, 2.1] * 5))
    (effect,) = told.effects
    assert (effect.gene, effect.option, effect.instead) == (0, 1, 2)
    assert effect.loss == pytest.approx(1.05, abs=0.3)


def test_a_point_that_does_not_exist_is_not_compared():
    """Members of a group that is off, and what ``where=`` refuses."""
    space = Space.from_mapping(
        {"-a": literal("", knockout_prob=0.5), "-b": literal("", knockout_prob=0.5), "group": {"-g": choice([1, 2]), "-h": choice([1, 2])}}
    ).bounded(Where((Predicate(lambda k: "-a" in k or "-b" in k, "a or b", "a or b"),)))  # fmt: skip
    points = np.array([point for point in space.points() if space.allows(point)] * 3)
    scores = np.array([0.1 * (point[1] == OFF) + 0.5 * (point[2] != OFF) - 0.2 * (point[0] != OFF) for point in points])
    told = explain(space, points, scores + 0.3 * (points[:, 1] != OFF))
    assert {space.genes[effect.gene].name for effect in told.effects} == {"-b"}  # -a alone is the best: it has to stay


def test_a_long_search_is_explained_by_as_many_models_as_a_short_one(monkeypatch):
    made = []
    of = explanation._Model.of.__func__
    monkeypatch.setattr(
        explanation._Model, "of", classmethod(lambda cls, *given: made.append(len(given[0].points)) or of(cls, *given))
    )
    points, scores = searched("random", 100)
    explain(SPACE, np.tile(points, (10, 1)), np.tile(scores, 10))
    assert len(made) <= 65 and max(made) <= 816
