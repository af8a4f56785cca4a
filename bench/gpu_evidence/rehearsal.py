"""The same steps above the driver without a GPU of tests/driver, in virtual time: a rehearsal, and no measurement."""

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Where no GPU is nothing is computed, so that there is no answer to compare.
CONFTEST_CHANGE = ("return np.testing.assert_allclose", "return lambda actual, desired, **tolerances: None")
GPU_TESTS = ("tests/gpu", "--ignore=tests/gpu/test_whole.py", "-o", "acf_no_device=fail")  # the whole way comes after


def driver(home: Path, python: str) -> dict[str, str]:
    """Build it; returns the environment of a process above it.

    Raises:
        SystemExit: it cannot be built here.
    """
    place = home / "work" / "driver"
    place.mkdir(parents=True, exist_ok=True)
    (place / "calls").unlink(missing_ok=True)  # its log, which grows with every launch
    command = [python, "-m", "tests.driver.build", str(place)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if built.returncode:
        raise SystemExit(f"the driver without a GPU cannot be built: it needs gcc and the cuda extra:\n{built.stderr}")
    above: dict[str, str] = json.loads(built.stdout)
    return above


def conftest(own: str) -> str:
    """The kernels' conftest, comparing nothing."""
    old, new = CONFTEST_CHANGE
    if old not in own:
        raise ValueError(f"the kernels' conftest.py has no {old!r}: change it in rehearsal.py too")
    return own.replace(old, new)
