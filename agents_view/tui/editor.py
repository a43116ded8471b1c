"""A text in the person's own editor ($VISUAL, $EDITOR)."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path


def editor_command() -> list[str]:
    """The editor's command line; `vi` if none is set, as every other program does."""
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        return shlex.split(chosen) or ["vi"]
    except ValueError:
        return [chosen]


def edit_text(text: str) -> str:
    """Blocks until the editor is left; the new text. Raises `OSError` if it cannot be started."""
    with tempfile.TemporaryDirectory(prefix="agents-view-") as directory:
        path = Path(directory) / "prompt.md"
        path.write_text(text, encoding="utf-8")
        done = subprocess.run([*editor_command(), str(path)], check=False)
        if done.returncode != 0:
            return text
        return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
