"""``python -m pytest_compileiq.cli``: the ``acf`` command where no script is installed."""

import sys

from pytest_compileiq.cli.main import main

sys.exit(main())
