"""How commands answer: data on stdout, messages on stderr, one JSON document with `--json`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.roster import RosterRow
from daemon_client.status import badges_of, label_of, section_of

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NO_SESSION: Final = 3
NO_DAEMON: Final = 4
TIMED_OUT: Final = 5
NEEDS_PERSON: Final = 6
INTERRUPTED: Final = 130

_EXIT: Final = {
    ErrorCode.NOT_FOUND: NO_SESSION,
    ErrorCode.AMBIGUOUS: USAGE,
    ErrorCode.INVALID: USAGE,
    ErrorCode.UNAVAILABLE: NO_DAEMON,
    ErrorCode.INCOMPATIBLE: NO_DAEMON,
}


class Stop(Exception):
    """A command ends early with this exit code, and a message that is not an error's."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def reason(self) -> str:
        """The code of the same thing in JSON."""
        names = {TIMED_OUT: "timeout", NEEDS_PERSON: "needs_person", USAGE: "invalid"}
        return names.get(self.code, "failed")


def exit_code_of(error: DaemonError) -> int:
    """The exit code of spec 09 for a failure."""
    return _EXIT.get(error.code, FAILED)


def print_json(value: object) -> None:
    """One JSON document, with every field, defaults too: keys are stable."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def print_line(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def tell(text: str) -> None:
    """A message for people."""
    sys.stderr.write(text + "\n")


def print_error(error: DaemonError, *, as_json: bool) -> int:
    """Show a failure; the exit code."""
    if as_json:
        body = {"code": error.code, "message": error.message, "detail": list(error.detail)}
        print_json({"error": body})
    else:
        tell(f"agents-view: {error.message}")
        for line in error.detail:
            tell(f"  {line}")
    return exit_code_of(error)


def plain(value: msgspec.Struct) -> dict[str, Any]:
    """A Struct as JSON values with every field (the wire leaves defaults out)."""
    return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}


def _plain(value: object) -> Any:
    if isinstance(value, msgspec.Struct):
        return plain(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def row_json(row: RosterRow, now_ms: int) -> dict[str, Any]:
    """A row as `ls` shows it: all facts, section, label and badges."""
    return plain(row) | {
        "section": section_of(row),
        "label": label_of(row, now_ms),
        "badges": [plain(badge) for badge in badges_of(row, now_ms)],
    }


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Columns aligned by what a terminal shows, not by characters; the last one is not padded."""
    from rich.cells import cell_len

    if not rows:
        return
    widths = [max(cell_len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [
            text + " " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True)
        ]
        print_line("  ".join(cells).rstrip())
