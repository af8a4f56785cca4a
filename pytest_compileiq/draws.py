"""Ready inputs for a test's body, drawn from ``acf.rng``: ``x = draws.normal(acf.rng, (64, 64), "float32")``.

The search and the proof see one draw, and the stress of a winner sees others: what is drawn here is then the wider, the
more of a kernel it reaches. Every function takes a shape and a floating-point type, ``float32`` unless told, and raises
``BodyError`` where ``rng`` is no generator or ``dtype`` is not float16, float32 or float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_compileiq.errors import BodyError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike, NDArray

    Shape = int | tuple[int, ...]

_TYPES = ("float16", "float32", "float64")


def normal(rng: np.random.Generator, shape: Shape, dtype: DTypeLike = "float32") -> NDArray[Any]:
    """Standard normal values."""
    kind = _checked("normal", rng, dtype)
    return rng.standard_normal(shape).astype(kind)


def wide(rng: np.random.Generator, shape: Shape, dtype: DTypeLike = "float32") -> NDArray[Any]:
    """Values of both signs whose exponents are spread evenly over half of the type's range.

    A product of two of them neither overflows nor becomes denormal; a sum loses all but the largest.
    """
    import numpy as np

    kind = _checked("wide", rng, dtype)
    limits = np.finfo(kind)
    exponents = rng.integers(int(limits.minexp) // 2 + 1, int(limits.maxexp) // 2, size=shape)
    return np.ldexp(_signs(rng, shape) * rng.uniform(1, 2, size=shape), exponents).astype(kind)


def denormal(rng: np.random.Generator, shape: Shape, dtype: DTypeLike = "float32") -> NDArray[Any]:
    """Denormal values of both signs: what code that flushes to zero takes for zero."""
    import numpy as np

    kind = _checked("denormal", rng, dtype)
    limits = np.finfo(kind)
    steps = rng.integers(1, 2 ** int(limits.nmant), size=shape)
    return (_signs(rng, shape) * (steps * np.float64(limits.smallest_subnormal))).astype(kind)


def special(
    rng: np.random.Generator, shape: Shape, dtype: DTypeLike = "float32", *, share: float = 0.05
) -> NDArray[Any]:
    """Standard normal values, of which ``share`` are replaced by NaN, both infinities and both zeros, equally often.

    Raises:
        BodyError: ``share`` is not from 0 to 1.
    """
    import numpy as np

    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise BodyError(f"draws.special(share={share!r}): expected a number from 0 to 1")
    values = normal(rng, shape, dtype)
    replaced = rng.random(shape) < share
    chosen = rng.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0]), size=shape)
    return np.where(replaced, chosen, values).astype(values.dtype)


def small_integers(
    rng: np.random.Generator,
    shape: Shape,
    dtype: DTypeLike = "float32",
    *,
    terms: int,
    factors: int = 2,
    largest: int = 3,
) -> NDArray[Any]:
    """Whole numbers from ``-largest`` to ``largest``, so that sums of products are exact in every order of summation.

    That holds for additions and multiplications; a division, a root or an exponential of them is rounded.

    Args:
        terms: how many products a sum of the kernel has, e.g. the inner dimension of a matrix product.
        factors: how many of these values a product has; 1 for a plain sum.
        largest: the largest magnitude.

    Raises:
        BodyError: a count is not a positive whole number, or a sum may reach 2 to the type's number of significant
            bits, beyond which it would be rounded.
    """
    import numpy as np

    kind = _checked("small_integers", rng, dtype)
    for name, count in (("terms", terms), ("factors", factors), ("largest", largest)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise BodyError(f"draws.small_integers({name}={count!r}): expected a positive whole number")
    bits = int(np.finfo(kind).nmant) + 1
    if (reached := terms * largest**factors) >= 2**bits:
        raise BodyError(
            f"draws.small_integers(terms={terms}, factors={factors}, largest={largest}): a sum may reach {reached}, "
            f"and {kind} is exact below 2^{bits} = {2**bits}: draw fewer terms, a smaller largest=, or a wider type"
        )
    return rng.integers(-largest, largest, size=shape, endpoint=True).astype(kind)


def _checked(function: str, rng: object, dtype: DTypeLike) -> np.dtype[Any]:
    import numpy as np

    if not isinstance(rng, np.random.Generator):
        raise BodyError(f"draws.{function}({type(rng).__name__}, …): expected acf.rng first, a numpy.random.Generator")
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind.name not in _TYPES:
        raise BodyError(f"draws.{function}(dtype={dtype!r}): expected {', '.join(_TYPES)}")
    return kind


def _signs(rng: np.random.Generator, shape: Shape) -> NDArray[Any]:
    return rng.choice([-1.0, 1.0], size=shape)
