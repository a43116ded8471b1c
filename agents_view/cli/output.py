"""How commands answer: data on stdout, messages on stderr, one JSON document with `--json`."""

from __future__ import annotations

import argparse
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
_REASONS: Final = {
    FAILED: "failed",
    USAGE: ErrorCode.INVALID.value,
    NO_SESSION: ErrorCode.NOT_FOUND.value,
    NO_DAEMON: ErrorCode.UNAVAILABLE.value,
    TIMED_OUT: ErrorCode.TIMEOUT.value,
    NEEDS_PERSON: "needs_person",
}


class Stop(Exception):
    """A command ends early with this exit code, and why, one more fact a line in `detail`."""

    def __init__(self, code: int, message: str, detail: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail


def print_json(value: object) -> None:
    """One JSON document, with every field, defaults too: keys are stable."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def print_done(args: argparse.Namespace) -> int:
    """Confirmed; people need no word of it."""
    if args.json:
        print_json({"done": True})
    return OK


def print_line(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def tell(text: str) -> None:
    """A message for people."""
    sys.stderr.write(text + "\n")


def report(error: DaemonError | Stop, *, as_json: bool) -> int:
    """Show why a command was not done; the exit code of spec 09."""
    if isinstance(error, Stop):
        code, reason = error.code, _REASONS[error.code]
    else:
        code, reason = _EXIT.get(error.code, FAILED), error.code.value
    if as_json:
        body = {"code": reason, "message": error.message, "detail": list(error.detail)}
        print_json({"error": body})
        return code
    tell(f"agents-view: {error.message}")
    for line in error.detail:
        tell(f"  {line}")
    return code


def plain(value: msgspec.Struct) -> dict[str, Any]:
    """A Struct as JSON values with every field (the wire leaves defaults out)."""
    # a thousand rows of forty fields: asdict does most of them at once
    facts = msgspec.structs.asdict(value)
    for name, fact in facts.items():
        if isinstance(fact, (msgspec.Struct, tuple, list)):
            facts[name] = _plain(fact)
    return facts


def _plain(value: object) -> Any:
    if isinstance(value, msgspec.Struct):
        return plain(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def row_json(row: RosterRow, now_ms: int) -> dict[str, Any]:
    """A row as `ls` shows it: all facts, section, label and badges."""
    facts = plain(row)
    facts["section"] = section_of(row)
    facts["label"] = label_of(row, now_ms)
    facts["badges"] = [plain(badge) for badge in badges_of(row, now_ms)]
    return facts


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
