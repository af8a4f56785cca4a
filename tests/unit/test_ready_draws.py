"""Ready draws hold what their names say, in every floating-point type, and cost an import of nothing."""

from __future__ import annotations

import subprocess
import sys
from math import prod

import numpy as np
import pytest

from pytest_compileiq import draws
from pytest_compileiq.errors import BodyError

TYPES = ["float16", "float32", "float64"]
MANY = (64, 256)


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(7))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("draw", [draws.normal, draws.wide, draws.denormal, draws.special])
def test_a_draw_has_its_shape_and_type_and_depends_on_the_generator_alone(draw, dtype):
    with np.errstate(all="raise"):
        first, again = draw(rng(), MANY, dtype), draw(rng(), MANY, dtype)
    assert first.shape == MANY and first.dtype == dtype
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first)) > 300


@pytest.mark.parametrize("dtype", TYPES)
def test_wide_values_reach_far_and_their_products_stay_in_range(dtype):
    values, limits = draws.wide(rng(), MANY, dtype), np.finfo(dtype)
    exponents = np.frexp(values.ravel())[1]
    assert exponents.max() - exponents.min() > 0.8 * limits.maxexp
    with np.errstate(all="raise"):
        product = np.multiply.outer(values.ravel()[:200], values.ravel()[:200])
    assert np.isfinite(product).all() and (abs(product) >= limits.smallest_normal).all()
    assert (values < 0).any() and (values > 0).any()


@pytest.mark.parametrize("dtype", TYPES)
def test_denormal_values_are_all_denormal(dtype):
    values = abs(draws.denormal(rng(), MANY, dtype))
    assert (values > 0).all() and (values < np.finfo(dtype).smallest_normal).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_special_values_are_sprinkled_in_every_kind(dtype):
    values = draws.special(rng(), MANY, dtype)
    zeros = values[values == 0]
    kinds = [np.isnan(values), values == np.inf, values == -np.inf, np.signbit(zeros), ~np.signbit(zeros)]
    shares = [kind.sum() / prod(MANY) for kind in kinds]
    assert shares == pytest.approx([0.01] * 5, abs=0.004)


@pytest.mark.parametrize("dtype", TYPES)
def test_sums_of_small_integers_are_exact_in_every_order(dtype):
    terms = {"float16": 200, "float32": 4096, "float64": 4096}[dtype]
    a, b = (draws.small_integers(rng(), terms, dtype, terms=terms) for _ in range(2))
    exact = int(np.sum(a.astype(int) * b.astype(int)))
    for order in (np.arange(terms), np.arange(terms)[::-1], rng().permutation(terms)):
        total = np.zeros((), dtype)
        for value in (a * b)[order]:
            total = total + value
        assert total == exact
    assert set(np.unique(a)) == set(range(-3, 4))


REFUSED = {
    "a sum that is rounded": (lambda: draws.small_integers(rng(), 9, "float16", terms=512, largest=2), r"may reach 2048, and float16 is exact below 2\^11 = 2048"),
    "no terms": (lambda: draws.small_integers(rng(), 9, terms=0), "terms=0.*: expected a positive whole number"),
    "a type": (lambda: draws.normal(rng(), 3, "int32"), "dtype='int32'.*: expected float16, float32, float64"),
    "a type that is none": (lambda: draws.wide(rng(), 3, "flote"), "expected float16"),
    "another random source": (lambda: draws.denormal(np.random, 3), "expected acf.rng first"),
    "a share": (lambda: draws.special(rng(), 3, share=2), "share=2.*: expected a number from 0 to 1"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_drawn_is_a_sentence(what):
    call, said = REFUSED[what]
    with pytest.raises(BodyError, match=said):
        call()


def test_importing_the_draws_imports_nothing_heavy():
    code = (
        "import sys; from pytest_compileiq import draws; "
        "print([m for m in ('numpy', 'scipy', 'pydantic') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
