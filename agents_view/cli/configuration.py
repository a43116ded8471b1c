"""`agents-view config`: what is in force, what is wrong with the file, and where it is."""

from __future__ import annotations

import argparse
from typing import Final

import msgspec

from agents_view.base.config import load_settings
from agents_view.cli.output import OK, USAGE, plain, print_json, print_line, tell
from daemon_client.paths import paths_for

_BARE: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"


async def path(args: argparse.Namespace) -> int:
    """Where the file is, or would be."""
    file = str(paths_for().config_file)
    if args.json:
        print_json({"path": file})
    else:
        print_line(file)
    return OK


async def check(args: argparse.Namespace) -> int:
    """Every problem with file, line and key; exit 2 if there is one."""
    loaded = load_settings(paths_for().config_file)
    if args.json:
        print_json({"problems": [plain(problem) for problem in loaded.problems]})
    else:
        for problem in loaded.problems:
            tell(str(problem))
        if not loaded.problems:
            tell("no problems")
    return USAGE if loaded.problems else OK


async def show(args: argparse.Namespace) -> int:
    """The settings in force, defaults and environment included, as TOML."""
    loaded = load_settings(paths_for().config_file)
    for problem in loaded.problems:
        tell(str(problem))
    if args.json:
        print_json(plain(loaded.settings))
    else:
        print_line("\n".join(toml_lines(msgspec.to_builtins(loaded.settings))))
    return OK


def toml_lines(table: dict[str, object], name: str = "") -> list[str]:
    """A nested table as TOML. `None` has no form there: such a key is left out."""
    lines = [f"[{name}]"] if name else []
    inner: list[str] = []
    for key, value in table.items():
        shown = key if key and all(letter in _BARE for letter in key) else _text(key)
        if isinstance(value, dict):
            inner += ["", *toml_lines(value, f"{name}.{shown}" if name else shown)]
        elif value is not None:
            lines.append(f"{shown} = {_text(value)}")
    return lines + (inner if lines else inner[1:])


def _text(value: object) -> str:
    """JSON's texts, numbers, truth values and arrays are TOML's."""
    return msgspec.json.encode(value).decode()
