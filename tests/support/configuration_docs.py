"""Writes docs/configuration.md from the settings Structs; `--check` fails if it differs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from agents_view.base.settings import AgentEntry, Settings

DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"

HEAD = """# Configuration

Generated from the settings Structs by `make docs`; do not edit.

TOML at `$XDG_CONFIG_HOME/agents-view/config.toml` (`agents-view config path` says where). Durations
are numbers of seconds or texts like `20m`. A bad value is named with file and line and replaced by
its default; the rest of the file is kept. Single values may be set by environment as well.
"""


def render() -> str:
    parts = [HEAD]
    for name, kind in get_type_hints(Settings, include_extras=True).items():
        if name == "agents":
            parts.append(_section("agents.NAME", AgentEntry, None))
        elif name == "keys":
            parts.append(
                "## `[keys]`\n\nAction ids and the keys that run them, comma separated, e.g."
                ' `"session.delete" = "D"`. The ids are in the help (`?`).\n'
            )
        else:
            parts.append(_section(name, kind, f"AGENTS_VIEW_{name.upper()}_"))
    return "\n".join(parts)


def _section(name: str, kind: Any, prefix: str | None) -> str:
    doc = (kind.__doc__ or "").strip().splitlines()[0]
    lines = [f"## `[{name}]`\n", doc.partition(": ")[2].capitalize() or doc, ""]
    lines += ["| key | default | unit | environment | meaning |", "|---|---|---|---|---|"]
    hints = get_type_hints(kind, include_extras=True)
    for field in msgspec.structs.fields(kind):
        meta = next((m for m in get_args(hints[field.name])[1:]), None)
        unit = ((getattr(meta, "extra_json_schema", None) or {}).get("unit")) or "–"
        named = prefix is not None and _is_single(field.default)
        variable = f"`{prefix}{field.name.upper()}`" if named else "–"
        default = field.default if field.default is not msgspec.NODEFAULT else "{}"
        shown = msgspec.json.encode(default).decode()
        meaning = getattr(meta, "description", "") or ""
        lines.append(f"| `{field.name}` | `{shown}` | {unit} | {variable} | {meaning} |")
    return "\n".join(lines) + "\n"


def _is_single(default: object) -> bool:
    """Only single values can be set by environment."""
    return isinstance(default, (str, int, float))


def main() -> int:
    text = render()
    if "--check" in sys.argv:
        if not DOCUMENT.exists() or DOCUMENT.read_text() != text:
            print("docs/configuration.md is not what the settings say: run make docs")
            return 1
        return 0
    DOCUMENT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
