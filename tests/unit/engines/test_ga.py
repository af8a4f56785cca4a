"""What the embedded engine is made of: points, distances, densities, novelty, and a memory that does not grow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import scipy.linalg
import scipy.stats

from pytest_compileiq.engines.base import Brief, Told
from pytest_compileiq.engines.ga.engine import Ga
from pytest_compileiq.engines.ga.gaussian_process import GaussianProcess, Hyper, Surrogate, expected_improvement
from pytest_compileiq.engines.ga.points import Encoding, PointSpace, distances, mutate, neighbours
from pytest_compileiq.engines.ga.ranking import KEPT, History, Marginals, Sameness
from pytest_compileiq.engines.registry import make
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Space, choice, literal
from pytest_compileiq.testing import LARGE_SPACE, SMALL_SPACE, digest_of

NESTED = Space.from_mapping(
    {"-O": choice([1, 2, 3]), "group": {"-a": literal("", 0.5), "inner": {"-b": literal("", 0.5), "-c": choice([1, 2], 0.5)}}}
)  # fmt: skip
PRIOR = Hyper.prior(len(LARGE_SPACE.genes))
SPACES = pytest.mark.parametrize("space", [SMALL_SPACE, LARGE_SPACE, NESTED], ids=["small", "large", "nested"])


def anything(space: Space, size: int) -> np.ndarray:
    """Points that need not be canonical, nor even allowed: −1 anywhere."""
    rng = np.random.default_rng(4)
    return (rng.random((size, len(space.genes))) * PointSpace(space).counts).astype(np.int64) - 1


@SPACES
def test_canonical_points_are_those_of_their_knobs_and_distinct(space):
    points = PointSpace(space).canonical(anything(space, 500), np.random.default_rng(1))
    as_tuples = [tuple(point.tolist()) for point in points]
    assert as_tuples == [space.point(space.knobs(point)) for point in as_tuples]
    assert len(set(as_tuples)) == len(as_tuples)


def test_canonical_reaches_every_set_of_knobs_once():
    points = PointSpace(NESTED).canonical(anything(NESTED, 2000), np.random.default_rng(1))
    every = {NESTED.point(NESTED.knobs(point)) for point in NESTED.points()}
    assert {tuple(point.tolist()) for point in points} == every


def test_points_are_drawn_by_the_space_s_own_probabilities():
    space = Space.from_mapping({"-a": literal("", 0.9), "-b": choice([1, 2, 3, 4]), "-c": literal("", 0.5)})
    drawn = PointSpace(space).draw(np.random.default_rng(1), 4000)
    assert (drawn >= 0).mean(axis=0) == pytest.approx([0.1, 1, 0.5], abs=0.03)
    assert np.bincount(drawn[:, 1]) / 4000 == pytest.approx([0.25] * 4, abs=0.03)


@SPACES
def test_a_mutant_differs_and_a_neighbour_differs_in_one_gene(space):
    counts, rng = PointSpace(space).counts, np.random.default_rng(2)
    points = anything(space, 300)
    assert (np.abs(mutate(points, counts, rng) - points).sum(axis=1) > 0).mean() > 0.85  # a step may end at the edge
    around = neighbours(points, counts, rng, 3)
    assert around.shape == (900, points.shape[1])
    assert ((around != np.repeat(points, 3, axis=0)).sum(axis=1) <= 1).all()
    for mutants in (around, mutate(points, counts, rng)):
        assert (mutants >= -1).all()
        assert (mutants < counts - 1).all()


def test_genes_are_mutated_by_their_relevance():
    counts, points = np.full(5, 4), np.zeros((2000, 5), dtype=np.int64)
    changed = mutate(points, counts, np.random.default_rng(3), np.array([1.0, 1, 1, 1, 20])) != points
    assert changed[:, 4].mean() > 2 * changed[:, :4].mean(axis=0).max()


def test_distances_weigh_genes_that_differ_and_count_the_thresholds_between_numbers():
    space = Space.from_mapping({"-O": choice(["1", "s", "3"]), "-p=": choice([1, 2, 4, 8], 0.5)})
    encoding = Encoding.of(space)
    features = encoding.features(np.array([[0, 0], [2, 0], [0, 3], [0, -1], [0, 1]]))
    weights = encoding.weights(np.array([5.0, 3.0]))
    # Another category is the whole weight; numbers by the share of the way; off is a step of its own below the first.
    assert distances(features[:1], features, weights)[0] == pytest.approx([0, 5, 3, 3, 1])


def test_the_marginal_ratio_counts_each_gene_among_the_best_tenth_and_the_rest():
    counts = np.array([2, 4, 3])
    points = (np.random.default_rng(5).random((40, 3)) * counts).astype(np.int64) - 1

    def density(point, met, prior):
        return np.prod([((met[:, g] == point[g]).sum() + prior / counts[g]) / (len(met) + prior) for g in range(3)])

    asked = points[:9]
    expected = [np.log(density(point, points[:4], 3) / density(point, points[4:], 1)) for point in asked]
    assert Marginals(points, counts).log_ratio(asked) == pytest.approx(np.array(expected))


def test_marginal_draws_follow_the_best_and_close_no_option():
    counts = np.array([2, 5])
    points = np.array([[0, 3]] * 4 + [[-1, -1]] * 36)
    drawn = Marginals(points, counts).sample(np.random.default_rng(1), 20_000)
    shares = [np.bincount(drawn[:, gene] + 1, minlength=counts[gene]) / len(drawn) for gene in range(2)]
    assert shares[0] == pytest.approx([1.5 / 7, 5.5 / 7], abs=0.02)
    assert shares[1] == pytest.approx([0.6 / 7, 0.6 / 7, 0.6 / 7, 0.6 / 7, 4.6 / 7], abs=0.02)


def test_genes_that_decide_the_machine_code_are_told_from_idle_ones():
    rng, counts = np.random.default_rng(8), np.array([3, 2, 4, *[3] * 7])
    points = (rng.random((80, 10)) * counts).astype(np.int64) - 1
    points[40:, :3] = points[0, :3]  # as a search does near its best
    _, codes = np.unique(points[:, :3], axis=0, return_inverse=True)  # seven genes are idle
    sameness = Sameness(counts)
    for _ in range(20):
        sameness.learn(points, codes)
    assert sameness.rates[:3].min() > 0.8
    assert sameness.rates[3:].max() < 0.1


def test_a_noisy_or_is_fitted_by_its_share_of_pairs_that_changed():
    """Pairs that differ in one gene alone: its rate is how many of them changed, drawn to what is believed beforehand."""
    points, codes = np.array([[0], [0], [1], [1]]), np.array([0, 0, 0, 1])
    sameness = Sameness(np.array([3]))
    sameness.learn(points, codes)
    assert sameness.rates == pytest.approx([(2 + 0.5) / (4 + 0.5 + 2)])  # of four pairs that differ two changed


def test_novelty_is_the_chance_that_any_differing_gene_changes_the_code():
    sameness = Sameness(np.array([2, 4, 3]))
    sameness.rates = np.array([0.5, 0.2, 0.9])
    told = np.array([[0, 0, 0], [-1, 2, 1]])
    asked = np.array([[0, 0, 0], [-1, 0, 0], [-1, 1, 0], [0, 0, 1]])
    assert sameness.novelty(asked, sameness.known(told, np.array([0, 1]))) == pytest.approx(
        [0, 0.5, 0.6, 0.6], abs=1e-5
    )  # the last: 1 − (1 − 0.5)(1 − 0.2)
    assert sameness.novelty(asked, sameness.known(told[:0], np.array([]))) == pytest.approx(np.ones(4))


def test_points_of_codes_of_their_own_are_known_beside_others_as_with_them():
    drawn = np.random.default_rng(3).integers(-1, 2, size=(30, 6))
    told, waiting, asked = drawn[:12], drawn[12:15], drawn[15:]
    codes = np.arange(12) // 2
    sameness = Sameness(np.full(6, 3))
    sameness.learn(told, codes)
    beside = sameness.known(told, codes).and_new(sameness.known(waiting, np.arange(3)))
    whole = sameness.known(drawn[:15], np.append(codes, [20, 21, 22]))
    assert np.array_equal(sameness.novelty(asked, beside), sameness.novelty(asked, whole))


def test_a_gene_in_which_points_of_one_code_differ_hardly_changes_that_code():
    sameness = Sameness(np.array([2, 2]))
    sameness.rates = np.array([0.5, 0.5])
    told, asked = np.array([[0, 0], [0, -1]]), np.array([[-1, 0], [-1, -1]])
    assert sameness.novelty(asked, sameness.known(told, np.array([3, 3]))) == pytest.approx([0.5, 0.5])
    told, asked = np.array([[0, 0, 0], [-1, -1, 0]]), np.array([[-1, 0, 0], [0, -1, 0], [0, 0, -1], [-1, 0, -1]])
    sameness = Sameness(np.array([2, 2, 2]))
    sameness.rates = np.array([0.5, 0.5, 0.5])
    rate = 0.5 * 0.05 / 1.05  # of the genes in which they differ
    assert sameness.novelty(asked, sameness.known(told, np.array([3, 3]))) == pytest.approx(
        [rate, rate, 0.5, 1 - (1 - rate) * 0.5], abs=1e-6
    )


def test_the_history_tells_codes_apart_by_their_names():
    history = History(Encoding.of(LARGE_SPACE), 1)
    points = PointSpace(LARGE_SPACE).draw(np.random.default_rng(3), 5)
    history.add(points[:3], np.array([[0.5], [0.7], [0.5]]), ["a", "b", "a"])
    history.add(points[3:], np.array([[np.nan], [0.7]]), ["", "b"])
    assert history.codes.tolist() == [0, 1, 0, 3, 1]


def test_the_history_keeps_the_best_and_the_newest_and_no_more():
    encoding, rng = Encoding.of(LARGE_SPACE), np.random.default_rng(6)
    history, scores = History(encoding, 1), rng.normal(size=3000)
    scores[::7] = np.nan
    points = PointSpace(LARGE_SPACE).draw(rng, 3000)
    for start in range(0, 3000, 4):
        history.add(points[start : start + 4], scores[start : start + 4, None], [""] * 4)
    assert len(history.points) == len(history.features) == len(history.codes) <= 2 * KEPT
    assert (history.points[-KEPT:] == points[-KEPT:]).all()
    best = history.scores[history.best_and_newest()[: KEPT // 2], 0]
    assert best == pytest.approx(np.sort(scores)[: KEPT // 2])


def told(candidate, score: float) -> Told:
    return Told(candidate, (score,))


def test_the_next_slot_knows_what_was_told_since_the_last():
    first, second = (make("ga", Brief(LARGE_SPACE, 1)) for _ in range(2))
    for engine in (first, second):
        engine.tell([told(one, digest_of(one) / 2**32) for one in engine.ask(18)])
    (one,), (other,) = first.ask(1), second.ask(1)
    assert one == other
    first.tell([told(one, -5.0)])
    second.tell([told(one, 5.0)])
    assert first.ask(3) != second.ask(3)


def test_knobs_without_effect_do_not_use_up_the_budget():
    space = Space.from_mapping(
        {f"-idle{number}": literal("", 0.5) for number in range(8)}
        | {f"-p{number}=": choice([1, 2, 4, 8]) for number in range(4)}
    )

    def search(seed: int) -> int:
        engine, seen = make("ga", Brief(space, seed)), set()
        for _ in range(25):
            for one in engine.ask(4):
                code = tuple(value for name, value in one.knobs.items() if name.startswith("-p"))
                engine.tell([Told(one, (sum(code) / 10,), duplicate=code in seen, code=str(code))])
                seen.add(code)
        return len(seen)

    assert min(search(seed) for seed in range(3)) > 45  # of 100 evaluations; 256 machine codes exist


def searched(batches: Sequence[int]) -> Iterator[tuple[Ga, list[Candidate]]]:
    """A search of LARGE_SPACE in these batches, each told before the next is asked for; several points have one code."""
    engine = Ga(Brief(LARGE_SPACE, 4, budget=sum(batches)))
    for size in batches:
        asked = engine.ask(size)
        yield engine, asked
        scores = [sum(len(str(value)) for value in candidate.knobs.values()) / 10 for candidate in asked]
        engine.tell([Told(each, (score,), code=str(score // 0.2)) for each, score in zip(asked, scores, strict=True)])


def test_what_is_kept_between_asks_is_what_would_be_made_anew(monkeypatch):
    foretold, known, kept = GaussianProcess.foretold, Ga._known, []
    chosen, informed, marginals = History.best_and_newest, Surrogate.informed, Ga._told_marginals

    def checked_foretold(process, points, believed):
        believer = process.believing(believed)
        expected = foretold(believer, believer.located(points.features), believed[:0])
        assert np.allclose(foretold(process, points, believed), expected, atol=1e-9)
        kept.append("foretold")
        return foretold(process, points, believed)

    def checked_known(engine):
        before, engine._told_known = known(engine), None
        anew = known(engine)
        assert np.array_equal(before.agreeing, anew.agreeing) and np.array_equal(before.total, anew.total)
        kept.append("known")
        return before

    def checked_chosen(history):
        assert np.array_equal(chosen(history), history._chosen())
        kept.append("chosen")
        return chosen(history)

    def checked_informed(surrogate):
        (before, best), surrogate._informed = informed(surrogate), None
        anew, best_anew = informed(surrogate)
        assert best == best_anew and np.array_equal(before._alpha, anew._alpha) and before.hyper is anew.hyper
        kept.append("informed")
        return before, best

    def checked_marginals(engine):
        before, points = marginals(engine), engine._history.points
        anew = Marginals(points[engine._history._chosen()], before._counts)
        assert np.array_equal(before.log_ratio(points), anew.log_ratio(points))
        kept.append("marginals")
        return before

    monkeypatch.setattr(GaussianProcess, "foretold", checked_foretold)
    monkeypatch.setattr(Ga, "_known", checked_known)
    monkeypatch.setattr(History, "best_and_newest", checked_chosen)
    monkeypatch.setattr(Surrogate, "informed", checked_informed)
    monkeypatch.setattr(Ga, "_told_marginals", checked_marginals)
    for _ in searched([20, 1, 1, 1, 1, 1, 3, 4, 2, 16, 1, 7]):
        pass
    assert set(kept) == {"foretold", "known", "chosen", "informed", "marginals"}


def test_models_are_fitted_once_for_a_batch_in_which_nothing_is_told(monkeypatch):
    fitted, improve = [], Surrogate.improve
    monkeypatch.setattr(Surrogate, "improve", lambda self, *given: fitted.append(improve(self, *given)))
    per_batch = []
    for _, asked in searched([20, 16, 32, 4]):
        assert len({tuple(sorted(candidate.knobs.items())) for candidate in asked}) == len(asked)
        per_batch.append(len(fitted) - sum(per_batch))
    assert per_batch == [0, 1, 1, 1]


def some_process(points: int, more: int) -> tuple[GaussianProcess, np.ndarray, np.ndarray, np.ndarray]:
    """A process on ``points`` points, the features of these and ``more``, scores of all, and features to predict at."""
    encoding, rng = Encoding.of(LARGE_SPACE), np.random.default_rng(6)
    features = encoding.features(anything(LARGE_SPACE, points + more))
    scores = rng.normal(size=points + more)
    hyper = Hyper(rng.normal(-1.5, 0.5, size=len(LARGE_SPACE.genes)), float(np.log(0.1)))
    process = GaussianProcess(encoding, features[:points], scores[:points], hyper)
    return process, features, scores, encoding.features(PointSpace(LARGE_SPACE).draw(rng, 50))


def test_a_process_predicts_as_the_textbook_does():
    process, features, scores, asked = some_process(60, 0)
    signal, cross = (np.exp(-distances(left, features, process.weights)) for left in (features, asked))
    factor = scipy.linalg.cho_factor(signal + (0.1 + 1e-8) * np.eye(60))  # Rasmussen & Williams, algorithm 2.1
    variance = scores @ scipy.linalg.cho_solve(factor, scores) / 60
    explained = np.einsum("ij,ji->i", cross, scipy.linalg.cho_solve(factor, cross.T))
    mean, deviation = process.predict(asked)
    assert mean == pytest.approx(cross @ scipy.linalg.cho_solve(factor, scores), abs=1e-9)
    assert deviation == pytest.approx(np.sqrt(variance * (1 - explained)), abs=1e-9)


def test_a_process_that_took_points_in_is_one_made_with_them():
    process, features, scores, asked = some_process(60, 9)
    encoding = Encoding.of(LARGE_SPACE)
    grown = process.believing(features[60:64]).believing(features[64:]).told(scores)
    whole = GaussianProcess(encoding, features, scores, process.hyper)
    assert np.allclose(grown.predict(asked), whole.predict(asked), atol=1e-9)
    assert np.allclose(grown.improved_hyper().log_weights, whole.improved_hyper().log_weights, atol=1e-9)
    assert process.believing(features[60:]).predict(asked)[0] == pytest.approx(process.predict(asked)[0], abs=1e-9)


def test_points_that_are_located_once_are_foretold_as_by_a_process_that_believes_in_more():
    process, features, scores, asked = some_process(60, 9)
    located = process.told(-scores[:60]).located(asked)  # whatever the scores
    for believed in (features[60:60], features[60:61], features[60:]):
        expected = process.believing(believed).predict(asked)
        assert np.allclose(process.foretold(located, believed), expected, atol=1e-9)


def test_a_step_of_the_hyperparameters_goes_up_the_evidence():
    process, features, scores, _ = some_process(60, 0)
    improved = GaussianProcess(Encoding.of(LARGE_SPACE), features, scores, process.improved_hyper())

    def posterior(one: GaussianProcess) -> float:
        noise, prior = np.exp(one.hyper.log_noise), PRIOR
        matrix = np.exp(-distances(features, features, one.weights)) + (noise + 1e-8) * np.eye(60)
        variance = scores @ np.linalg.solve(matrix, scores) / 60
        evidence = scipy.stats.multivariate_normal(cov=variance * matrix).logpdf(scores)
        weights = scipy.stats.norm(prior.log_weights, 1.2).logpdf(one.hyper.log_weights).sum()
        return evidence + weights + scipy.stats.norm(np.log(0.05), 1).logpdf(one.hyper.log_noise)

    assert posterior(improved) > posterior(process)


def test_expected_improvement_is_the_mean_of_what_is_gained():
    mean, deviation = np.array([-1.0, 0.0, 2.0]), np.array([0.5, 1.0, 2.0])
    drawn = np.random.default_rng(7).normal(mean, deviation, size=(400_000, 3))
    gained = np.maximum(-0.5 - drawn, 0).mean(axis=0)
    assert expected_improvement(mean, deviation, -0.5) == pytest.approx(gained, rel=0.02)


def test_improvement_finds_new_points_where_most_machine_code_is_known():
    """Two of nine knobs matter: without looking past what has been asked, its best points are all known by the end."""
    space = Space.from_mapping({f"-f{number}": literal("", 0.5) for number in range(9)})
    engine, codes, origins = make("ga", Brief(space, 0, budget=300)), set(), []
    for _ in range(300):
        [candidate] = engine.ask(1)
        code = ("-f0" in candidate.knobs, "-f1" in candidate.knobs)
        engine.tell([Told(candidate, (-float(sum(code)),), duplicate=code in codes, code=str(code))])
        codes.add(code)
        origins.append(candidate.origin)
    assert origins.count("improvement") > 130  # of 141 slots


# ── outlook ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def outlook_after(scores, objectives: int = 1):
    """What the engine expects once 40 candidates of the large space had these scores."""
    engine = make("ga", Brief(LARGE_SPACE, 1, objectives))
    assert engine.outlook() is None
    done = 0
    while done < 40:
        asked = engine.ask(4)
        engine.tell([Told(candidate, scores(candidate)) for candidate in asked])
        done += len(asked)
    return engine.outlook()


def test_an_outlook_is_in_the_scores_own_unit():
    """A thousand times the differences are a thousand times the expectation."""
    large = outlook_after(lambda candidate: (digest_of(candidate) / 2**32 - 0.5,))
    small = outlook_after(lambda candidate: ((digest_of(candidate) / 2**32 - 0.5) / 1000,))
    assert large.improvement == pytest.approx(1000 * small.improvement, rel=1e-6)
    assert large.spread == pytest.approx(1000 * small.spread, rel=1e-6)
    assert 0 < large.improvement < 0.5


def test_where_every_score_is_equal_next_to_nothing_is_expected():
    flat = outlook_after(lambda candidate: (0.0,))
    assert flat.improvement < 1e-6


def test_of_several_objectives_no_outlook_is_given():
    assert outlook_after(lambda candidate: (digest_of(candidate) / 2**32, 0.0), objectives=2) is None
