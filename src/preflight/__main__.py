"""``python -m preflight`` is the command ``preflight``."""

from __future__ import annotations

import sys

from preflight.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
