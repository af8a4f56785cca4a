"""A kernel that nothing here was designed around: the assignment step of k-means."""

import ctypes

import numpy as np
import pytest

from pytest_compileiq import Cc

POINTS, CENTROIDS, DIMENSIONS = 512, 16, 24


@pytest.fixture
def clusters():
    rng = np.random.default_rng(11)
    centroids = rng.random((CENTROIDS, DIMENSIONS), dtype=np.float32)
    noise = 0.1 * rng.standard_normal((POINTS, DIMENSIONS), dtype=np.float32)
    points = centroids[rng.integers(0, CENTROIDS, POINTS)] + noise
    return points, centroids, np.empty(POINTS, np.int32)


@pytest.mark.tune(Cc("nearest_centroid.c", flags="-O2 -march=x86-64-v3"))
def test_nearest_centroid(acf, clusters):
    points, centroids, nearest = clusters
    kernel = acf.build().load().nearest_centroid
    kernel.restype = ctypes.c_float
    arguments = *(array.ctypes.data_as(ctypes.c_void_p) for array in clusters), POINTS, CENTROIDS, DIMENSIONS
    squared = ((points[:, None].astype(np.float64) - centroids) ** 2).sum(axis=2)

    nearest.fill(-1)
    inertia = kernel(*arguments)
    np.testing.assert_array_equal(nearest, squared.argmin(axis=1))
    np.testing.assert_allclose(inertia, squared.min(axis=1).sum(), rtol=1e-4)
    acf.measure(lambda: kernel(*arguments))
    np.testing.assert_array_equal(nearest, squared.argmin(axis=1))
