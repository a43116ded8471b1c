"""`python -m agents_view`."""

from __future__ import annotations

import sys

from agents_view.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
