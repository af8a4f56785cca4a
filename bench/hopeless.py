"""Ten searches over a space that cannot help: how many commit a speed-up. None should.

python bench/hopeless.py [--searches 10]
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from machine import describe

KERNELS = Path(__file__).parent / "kernels"
# Options that change the machine code, so that nothing is dropped as a duplicate, and not its speed.
SPACE = """space={
        "-falign-functions=": choice([32, 64, 128]),
        "-fstack-reuse=": choice(["none", "all", "named_vars"]),
        "-fno-asynchronous-unwind-tables": literal("", knockout_prob=0.5),
        "-fno-ipa-icf": literal("", knockout_prob=0.5),
    },"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=10)
    searches = parser.parse_args().searches
    print(describe())
    tuned = sum(search(seed) == "tuned" for seed in range(searches))
    print(f"{tuned} of {searches} searches over a space that cannot help committed a speed-up")
    sys.exit(tuned > 0)


def search(seed: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        shutil.copy(KERNELS / "nearest_centroid.c", home)
        text = (KERNELS / "test_nearest_centroid.py").read_text()
        text = text.replace("import Cc", "import Cc, choice, literal")
        text = text.replace('x86-64-v3"))', f'x86-64-v3"),\n    {SPACE}\n)')
        (home / "test_nearest_centroid.py").write_text(text)
        (home / "pytest.ini").write_text("[pytest]\n")
        command = [sys.executable, "-m", "pytest", "-q", "--tune", "--tune-budget=24", f"--tune-seed={seed}"]
        subprocess.run(command, cwd=home, check=True, capture_output=True)
        (metadata,) = home.glob("acf/*/*.toml")
        content = tomllib.loads(metadata.read_text())
        print(f"seed {seed}: {content['outcome']}: {content.get('reason', '')}", flush=True)
        return str(content["outcome"])


if __name__ == "__main__":
    main()
