"""The version of the product, here and in the package's metadata (`pyproject.toml` reads it).

A constant: asking the installed metadata costs every process of ours 20 ms.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
