"""What moves before two cameras: a numpy program that spends its time in six C kernels.

``python program.py LIBRARY FRAMES`` prints what it found. The pictures have the spectrum of natural ones (1/f), things
that pass, and a sensor's noise; the lens distorts; the zones that are watched are of very different sizes.

``--expect FILE`` is its own check: all that it found, of every frame, is what ``--save FILE`` wrote, or it ends with 1.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.ctypeslib import ndpointer
from numpy.typing import NDArray

KERNELS = ("gather", "stencil", "branchy", "ragged", "histogram", "reduction")
SENSOR_NOISE = 0.02
THRESHOLD = 0.02

Array = NDArray[np.generic]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path)
    parser.add_argument("frames", type=int)
    parser.add_argument("--shrink", type=int, default=1, help="pictures are so much smaller, in height and width")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write all that was found")
    parser.add_argument("--expect", type=Path, metavar="FILE", help="is all that was found what FILE says?")
    parser.add_argument("--times", type=Path, metavar="FILE", help="write each call's ns of processor time")
    asked = parser.parse_args()
    kernels = Kernels(asked.library.absolute(), is_timed=asked.times is not None)
    door = Camera(240 // asked.shrink, 320 // asked.shrink, seed=1)
    yard = Camera(480 // asked.shrink, 640 // asked.shrink, seed=2)
    for frame in range(asked.frames):  # the yard's camera is slower
        for camera in (door, yard) if frame % 3 == 0 else (door,):
            camera.watch(kernels)
    found = {
        f"{name} {key}": value for name, camera in (("door", door), ("yard", yard)) for key, value in camera.found()
    }
    for name in ("door", "yard"):
        moved, change = found[f"{name} moved"], found[f"{name} change"]
        print(f"{name}: {len(change)} frames, {moved.sum()} pixels moved, in zone {moved.sum(0).argmax()} most")
    if asked.times:
        asked.times.write_text(json.dumps(kernels.times), encoding="utf-8")
    if asked.save:
        with asked.save.open("wb") as stream:
            np.savez(stream, **found)
    if asked.expect:
        expect(found, asked.expect)


def expect(found: dict[str, Array], path: Path) -> None:
    """End with 1 where a bit differs from what ``path`` holds."""
    with np.load(path) as expected:
        wrong = [name for name in expected if found[name].tobytes() != expected[name].tobytes()]
    if wrong:
        sys.exit(f"not as expected: {', '.join(wrong)}")


class Kernels:
    """The library's functions; ``times`` has the nanoseconds of each call where they are asked for."""

    def __init__(self, library: Path, *, is_timed: bool) -> None:
        self.times: dict[str, dict[str, list[int]]] = {}
        count, real = ctypes.c_int64, ctypes.c_float
        floats, bytes_, ints = (ndpointer(kind, flags="C") for kind in (np.float32, np.uint8, np.int32))
        loaded = ctypes.CDLL(str(library))
        taken = {
            "gather": ([floats, ints, floats, count], None),
            "stencil": ([floats, floats, count, count], None),
            "branchy": ([floats, floats, bytes_, real, count], None),
            "ragged": ([bytes_, ints, ints, count], None),
            "histogram": ([bytes_, ints, count], None),
            "reduction": ([bytes_, bytes_, count], ctypes.c_int64),
        }
        for name, (arguments, result) in taken.items():
            function = getattr(loaded, name)
            function.argtypes, function.restype = arguments, result
            setattr(self, name, self._timed(name, function) if is_timed else function)

    def _timed(self, name: str, function: Callable[..., object]) -> Callable[..., object]:
        by_shape = self.times[name] = {}

        def call(*arguments: object) -> object:
            began = time.thread_time_ns()
            result = function(*arguments)
            took = time.thread_time_ns() - began
            by_shape.setdefault(str(arguments[-1]), []).append(took)
            return result

        return call


class Camera:
    """One camera's pictures, one after the other, and what is found in them."""

    def __init__(self, height: int, width: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._height, self._width, self._pixels = height, width, height * width
        self._scene = natural(height, width, self._random)
        self._passing = natural(height, width, self._random) > 0.7
        self._noise = [self._sensor_noise() for _ in range(5)]
        self._from = distorted(height, width)
        self._ends = zones(self._pixels, self._random)
        self._background = self._scene.ravel()[self._from]
        self._before = np.zeros((height, width), np.uint8)
        self._label = np.zeros((height, width), np.uint8)
        self._frames = 0
        self._moved: list[Array] = []
        self._counts: list[Array] = []
        self._change: list[int] = []

    def watch(self, kernels: Kernels) -> None:
        """Take a picture, and find what moves in it."""
        picture = self._picture()
        straight, smooth = np.empty_like(picture), np.empty_like(picture)
        kernels.gather(picture, self._from, straight, self._pixels)
        smooth[:] = straight
        kernels.stencil(straight, smooth, self._height, self._width)
        kernels.branchy(smooth, self._background, self._label, THRESHOLD, self._pixels)
        moved = np.empty(len(self._ends), np.int32)
        kernels.ragged(self._label, self._ends, moved, len(moved))
        grey = (smooth * 255).astype(np.uint8)
        counts = np.zeros(256, np.int32)
        kernels.histogram(grey, counts, self._pixels)
        self._change.append(kernels.reduction(self._before, grey, self._pixels))
        self._before = grey
        self._moved.append(moved)
        self._counts.append(counts)

    def found(self) -> Iterator[tuple[str, Array]]:
        """All that was found in all frames, and the state that it left."""
        yield "moved", np.array(self._moved)
        yield "counts", np.array(self._counts)
        yield "change", np.array(self._change)
        yield "background", self._background
        yield "label", self._label

    def _picture(self) -> NDArray[np.float32]:
        """The scene, something dark that passes, and one of some noises, moved so that no two frames are alike."""
        self._frames += 1
        passing = np.roll(self._passing, 3 * self._frames, axis=1)
        noise = self._noise[self._frames % len(self._noise)]
        shift = self._random.integers(self._height), self._random.integers(self._width)
        noisy = np.where(passing, 0.6 * self._scene, self._scene) + np.roll(noise, shift, (0, 1))
        return np.clip(noisy, 0, 1, dtype=np.float32)

    def _sensor_noise(self) -> NDArray[np.float32]:
        return SENSOR_NOISE * self._random.standard_normal((self._height, self._width), np.float32)


def natural(height: int, width: int, random: np.random.Generator) -> NDArray[np.float32]:
    """A picture of values from 0 to 1, whose amplitudes fall as 1/f, as those of natural pictures do.

    Field, "Relations between the statistics of natural images and the response properties of cortical cells", Journal
    of the Optical Society of America A 4 (1987).
    """
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width))
    frequency[0, 0] = 1
    picture = np.fft.irfft2(np.fft.rfft2(random.standard_normal((height, width))) / frequency, (height, width))
    low, high = picture.min(), picture.max()
    return ((picture - low) / (high - low)).astype(np.float32)


def distorted(height: int, width: int) -> NDArray[np.int32]:
    """Where each pixel lies in the picture that the lens made: a barrel's distortion, turned by a few degrees."""
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    scale = 0.75 + 0.1 * (x * x + y * y)
    turned_y, turned_x = scale * (y + 0.08 * x), scale * (x - 0.08 * y)
    row = ((turned_y + 1) / 2 * (height - 1)).round().clip(0, height - 1)
    column = ((turned_x + 1) / 2 * (width - 1)).round().clip(0, width - 1)
    return (row * width + column).astype(np.int32)


def zones(pixels: int, random: np.random.Generator) -> NDArray[np.int32]:
    """Where each zone ends; most are short, and few hold most of the pixels."""
    sizes = 1 + (8 * random.pareto(1.2, pixels // 8)).astype(np.int64)
    ends = np.cumsum(sizes)
    return ends[ends <= pixels].astype(np.int32)


if __name__ == "__main__":
    main()
