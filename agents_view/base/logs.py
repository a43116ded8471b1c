"""Log files: one line per state change with its cause, rotating, 0600 (spec 07.5)."""

from __future__ import annotations

import logging
import os
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path


class _PrivateFile(RotatingFileHandler):
    def _open(self):  # type: ignore[override]
        return os.fdopen(
            os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            "a",
            encoding="utf-8",
            errors="backslashreplace",
        )


def log_to(path: Path, size: int, level: int = logging.INFO) -> None:
    """Send every record of this process to `path`, kept below `size` bytes, one old file beside."""
    handler = _PrivateFile(path, maxBytes=size, backupCount=1, encoding="utf-8")
    form = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(process)d %(levelname)s %(name)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    form.converter = time.gmtime
    handler.setFormatter(form)
    root = logging.getLogger()
    root.setLevel(level)
    root.addHandler(handler)
