"""The filter: plain tokens for now, each of which must match (spec 02.6). Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from daemon_client.roster import RosterRow
from daemon_client.text import clean

Predicate = Callable[[RosterRow], bool]


def parse_filter(text: str) -> Predicate | None:
    """A predicate for what was typed; None if nothing was.

    A token matches as a substring, else fuzzily: its letters in order within one run of word
    characters. Case and white space do not count.
    """
    tokens = text.casefold().split()
    if not tokens:
        return None
    tests = [_token(token) for token in tokens]

    def matches(row: RosterRow) -> bool:
        haystack = searched_text(row)
        return all(test(haystack) for test in tests)

    return matches


def _token(token: str) -> Callable[[str], bool]:
    fuzzy = re.compile(r"\w*?".join(re.escape(letter) for letter in token))

    def test(haystack: str) -> bool:
        return token in haystack or (len(token) > 1 and fuzzy.search(haystack) is not None)

    return test


def searched_text(row: RosterRow) -> str:
    """Everything about a row that is searched, folded."""
    parts = (
        row.session_id,
        row.name or "",
        row.first_message,
        row.cwd,
        row.recap or "",
        row.agent,
        row.model or "",
    )
    return " ".join(clean(part, 1000).casefold() for part in parts if part)
