"""Chooses the sets of gcc's options that the embedded engine tries first on every kernel.

    nice python bench/learn.py record      builds, times and counts the corpus: two hours of processor time, kept
    nice python bench/learn.py try         tries the best of each source on the others: half an hour of processor time
    python bench/learn.py fit              writes what the engine ships from what was recorded and tried

The corpus is ``learned_sources`` and the open half of the race, which an engine may be developed on. ``record`` and
``try`` may run twice side by side, as ``--share 1/2`` and ``--share 2/2``; once more without a share they write what
both have kept.
"""

import argparse
from pathlib import Path

import learn_corpus
import learn_portfolio
from race import share

PORTFOLIO = Path(__file__).parents[1] / "pytest_compileiq" / "engines" / "ga" / "portfolio-gcc.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("record", "try", "fit"))
    parser.add_argument("--share", type=share, default=(0, 1), help="1/2 in one process and 2/2 beside it: half each")
    asked = parser.parse_args()
    if asked.command == "record":
        learn_corpus.record(*asked.share)
    elif asked.command == "try":
        learn_portfolio.record(*asked.share)
    else:
        kinds = {kind: learn_portfolio.chosen(learn_portfolio.tried(kind)) for kind in learn_portfolio.KINDS}
        learn_portfolio.write(PORTFOLIO, kinds)


if __name__ == "__main__":
    main()
