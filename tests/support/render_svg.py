"""Snapshots as pictures to look at: `python -m tests.support.render_svg OUT_DIR FILE.svg …`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import resvg_py

FONT = "DejaVu Sans Mono"


def font_directory() -> str:
    """Where the monospaced font lies; the snapshot's own font cannot be loaded offline."""
    found = subprocess.run(
        ["fc-match", "--format=%{file}", FONT], capture_output=True, text=True, check=True
    )
    return str(Path(found.stdout).parent)


def render(svg: Path, png: Path) -> None:
    """One picture on the true grid: resvg honours `textLength`."""
    text = re.sub(r"@font-face\s*{.*?}", "", svg.read_text(), flags=re.S)
    text = re.sub(r"font-family:[^;]*;", f"font-family: '{FONT}';", text)
    png.write_bytes(
        bytes(
            resvg_py.svg_to_bytes(
                svg_string=text, font_dirs=[font_directory()], skip_system_fonts=True
            )
        )
    )


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:]:
        render(Path(name), out / (Path(name).stem + ".png"))
