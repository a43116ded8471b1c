"""The filter: plain tokens for now, each of which must match (spec 02.6). Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from daemon_client.roster import RosterRow
from daemon_client.text import clean

Predicate = Callable[[RosterRow], bool]

_SEARCHED: Final = 1000
"""Characters of each field."""


class Subject(NamedTuple):
    """What one token is tried on: the facts, and all searched text, folded.

    `words` is where the text begins that people wrote: an id is not searched fuzzily, since the
    letters of most short words stand in its 32 digits somewhere.
    """

    row: RosterRow
    text: str
    words: int


Test = Callable[[Subject], bool]


def parse_filter(text: str) -> Predicate | None:
    """A predicate for what was typed; None if nothing was.

    A token matches as a substring, else fuzzily: its letters in order within one run of word
    characters. Case and white space do not count.
    """
    tests = [_bare(token) for token in text.casefold().split()]
    if not tests:
        return None

    def matches(row: RosterRow) -> bool:
        subject = subject_of(row)
        return all(test(subject) for test in tests)

    return matches


def _bare(token: str) -> Test:
    fuzzy = _letters_in_order(token)

    def test(subject: Subject) -> bool:
        if token in subject.text:
            return True
        return len(token) > 1 and fuzzy.search(subject.text, subject.words) is not None

    return test


def _letters_in_order(token: str) -> re.Pattern[str]:
    """The letters in order within one run of word characters.

    Each gap stops at the first letter that fits and never gives it back, from the start of a run
    only: the search is linear in the text, whatever a person types and an agent writes.
    """
    parts: list[str] = []
    for letter in token:
        gap = rf"[^\W{re.escape(letter)}]*+" if _is_word(letter) else r"\w*+"
        parts.append(gap + re.escape(letter))
    return re.compile(r"(?<!\w)" + "".join(parts))


def _is_word(letter: str) -> bool:
    return re.match(r"\w", letter) is not None


def subject_of(row: RosterRow) -> Subject:
    """Everything about a row that is searched."""
    fields = (row.name, row.first_message, row.cwd, row.recap, row.agent, row.model)
    parts = (clean(field, _SEARCHED) for field in fields if field)
    words = len(row.session_id) + 1
    # folded and normalised alike with what is typed: runs of white space count as one blank
    text = " ".join(" ".join(parts).casefold().split())
    return Subject(row, f"{row.session_id} {text}", words)
