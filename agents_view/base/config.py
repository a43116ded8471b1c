"""Read the configuration file: typed, tolerant, and plain about what is wrong (spec 09).

A bad value is replaced by its default and named with file, line, key and what is allowed; the rest
is kept. The file is never written.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import msgspec

from agents_view.base.settings import AgentEntry, Settings

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_QUOTES: Final = str.maketrans("", "", "\"'")
_TABLES: Final = ("agents", "keys")
"""Sections whose keys are the user's own."""


class ConfigProblem(msgspec.Struct, kw_only=True, frozen=True):
    """One thing that was not used as written. `line` counts from 1; 0: no line (environment)."""

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


class Loaded(msgspec.Struct, kw_only=True, frozen=True):
    """The settings in force, and what had to be replaced on the way."""

    settings: Settings = Settings()
    problems: tuple[ConfigProblem, ...] = ()


def load_settings(path: Path, environ: Mapping[str, str] = os.environ) -> Loaded:
    """Settings from a file (missing: the defaults) and `AGENTS_VIEW_<SECTION>_<KEY>` over it."""
    reader = _Reader(str(path))
    document = reader.document(path)
    sections: dict[str, Any] = {n: reader.section(n, document) for n in _section_types()}
    settings = Settings(
        **sections,
        agents=reader.agents(document.get("agents", {})),
        keys=reader.keys(document.get("keys", {})),
    )
    reader.unknown_sections(document)
    settings = reader.overridden(settings, environ)
    return Loaded(settings=settings, problems=tuple(reader.problems))


def _section_types() -> dict[str, type[msgspec.Struct]]:
    hints = get_type_hints(Settings)
    return {name: kind for name, kind in hints.items() if name not in _TABLES}


class _Reader:
    """Reads one file and collects what is wrong with it."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._lines: dict[str, int] = {}
        self.problems: list[ConfigProblem] = []

    def document(self, path: Path) -> dict[str, Any]:
        """The parsed file; empty if it is missing, unreadable or no TOML."""
        try:
            text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
            self._lines = dict(_key_lines(text))
            return tomllib.loads(text)
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            self._problem("", f"cannot be read: {error}")
        except tomllib.TOMLDecodeError as error:
            self._problem("", f"{error}; all defaults are used", line=_line_of(str(error)))
        except RecursionError:
            self._problem("", "nested too deeply; all defaults are used")
        return {}

    def section(self, name: str, document: Mapping[str, Any]) -> msgspec.Struct:
        """One section, each bad key replaced by its default."""
        kind = _section_types()[name]
        return self._struct(name, kind, document.get(name, {}))

    def agents(self, table: object) -> dict[str, AgentEntry]:
        """`[agents.NAME]`; a bad key spoils itself only."""
        if not isinstance(table, dict):
            self._problem("agents", "must be a table")
            return {}
        return {
            name: self._struct(f"agents.{name}", AgentEntry, entry) for name, entry in table.items()
        }

    def keys(self, table: object) -> dict[str, str]:
        """`[keys]`; ids are checked by whoever knows the actions."""
        if not isinstance(table, dict):
            self._problem("keys", "must be a table")
            return {}
        good: dict[str, str] = {}
        for name, value in _flat(table):
            if isinstance(value, str):
                good[name] = value
            else:
                self._problem(f"keys.{name}", 'must be a text of keys, e.g. "x,delete"')
        return good

    def unknown_sections(self, document: Mapping[str, Any]) -> None:
        known = (*_section_types(), *_TABLES)
        for name in document:
            if name not in known:
                self._problem(name, f"no such section{_suggestion(name, known)}")

    def overridden(self, settings: Settings, environ: Mapping[str, str]) -> Settings:
        """Single values from the environment."""
        for name, kind in _section_types().items():
            section = getattr(settings, name)
            for field in msgspec.structs.fields(kind):
                variable = f"AGENTS_VIEW_{name}_{field.name}".upper()
                if variable not in environ:
                    continue
                value = self._value(variable, field.type, environ[variable], text=True)
                if value is not None:
                    section = msgspec.structs.replace(section, **{field.name: value})
            settings = msgspec.structs.replace(settings, **{name: section})
        return settings

    def _struct(self, name: str, kind: type[msgspec.Struct], table: object) -> Any:
        if not isinstance(table, dict):
            self._problem(name, "must be a table")
            return kind()
        fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
        values: dict[str, Any] = {}
        for key, value in table.items():
            path = f"{name}.{key}"
            if key not in fields:
                self._problem(path, f"no such key{_suggestion(key, fields)}")
                continue
            converted = self._value(path, fields[key], value)
            if converted is not None:
                values[key] = converted
        return kind(**values)

    def _value(self, path: str, kind: Any, value: object, *, text: bool = False) -> Any:
        """The value as the field wants it; None after naming what is wrong."""
        if is_duration(kind) and isinstance(value, str):
            match = _DURATION.fullmatch(value.strip())
            value = float(match[1]) * _UNITS[match[2]] if match else value
        try:
            converted = msgspec.convert(value, kind, strict=not text)
            if isinstance(converted, float) and not math.isfinite(converted):
                raise msgspec.ValidationError("Expected a finite number")
            return converted
        except msgspec.ValidationError as error:
            allowed = " (a number of seconds, or 20m)" if is_duration(kind) else ""
            line = 0 if text else None
            self._problem(path, f"{error}{allowed}; the default is used", line=line)
            return None

    def _problem(self, key: str, message: str, line: int | None = None) -> None:
        where = self._line(key) if line is None else line
        file = "environment" if key.startswith("AGENTS_VIEW_") else self._file
        problem = ConfigProblem(file=file, line=where, key=key, message=message)
        self.problems.append(problem)

    def _line(self, key: str) -> int:
        """Where the key stands, or what it is written inside of (an inline table)."""
        while key:
            if key in self._lines:
                return self._lines[key]
            key = key.rpartition(".")[0]
        return 0


def is_duration(kind: Any) -> bool:
    """Whether a field's type is one of our durations, in seconds."""
    for extra in get_args(kind)[1:]:
        schema = getattr(extra, "extra_json_schema", None) or {}
        if schema.get("unit") == "seconds":
            return True
    return False


def _suggestion(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f": did you mean {near[0]}?" if near else ""


def _line_of(error: str) -> int:
    match = re.search(r"line (\d+)", error)
    return int(match[1]) if match else 0


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """`[keys]` ids contain dots; TOML reads `list.down = "x"` as nested tables."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


_HEADER: Final = re.compile(r"\s*\[\[?\s*([^\[\]=]+?)\s*\]\]?\s*(?:#.*)?")
_KEY: Final = re.compile(r"\s*([A-Za-z0-9_.\"'-]+)\s*=")
_LONG_TEXTS: Final = ('"""', "'''")


def _key_lines(text: str) -> Iterator[tuple[str, int]]:
    """Where each key stands, as far as a look at the lines tells."""
    section, inside = "", ""
    for number, line in enumerate(text.splitlines(), start=1):
        if inside:
            inside = "" if inside in line else inside
            continue
        if header := _HEADER.fullmatch(line):
            section = header[1].translate(_QUOTES)
            yield section, number
        elif key := _KEY.match(line):
            name = key[1].translate(_QUOTES)
            yield (f"{section}.{name}" if section else name), number
        inside = next((mark for mark in _LONG_TEXTS if line.count(mark) % 2), "")
