"""The filter: what a person types finds what they mean, and never stops the board (2.6)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_view.board.filtering import parse_filter
from daemon_client.roster import RosterRow

ROW = RosterRow(
    session_id="0198c0ffee00deadbeef0000000000aa",
    name="Fix-Flaky  Tests",
    first_message="Straße\n überqueren",
    agent="codex",
    model="gpt-5",
    cwd="/home/u/src/core",
    recap="green again",
)


def matches(typed: str, row: RosterRow = ROW) -> bool:
    predicate = parse_filter(typed)
    assert predicate is not None
    return predicate(row)


@pytest.mark.parametrize(
    "typed",
    [
        "flaky", "FLAKY", "  flaky   codex ", "src/core", "gpt-5", "green", "c0ffee",
        "strasse", "STRASSE überq", "fix-fl", "flk", "tsts", "fix-fky",
    ],
)  # fmt: skip
def test_found(typed: str) -> None:
    assert matches(typed)


@pytest.mark.parametrize(
    "typed",
    ["flaky claude", "kalf", "fixtests", "xyz", "srccore", "(", "[a-z]", "flaky.*tests", "\\w"],
)
def test_not_found(typed: str) -> None:
    assert not matches(typed)


@pytest.mark.parametrize("typed", ["", "   ", "\t\n"])
def test_nothing_typed_filters_nothing(typed: str) -> None:
    assert parse_filter(typed) is None


@pytest.mark.parametrize("word", ["dead", "feed", "bad", "face", "add"])
def test_an_id_is_not_searched_fuzzily(word: str) -> None:
    row = RosterRow(session_id="f1a2c3e4d5b6a7d8d9e0f1e2e3d4a5d6", name="other")
    assert not matches(word, row)


def test_one_letter_is_found_as_itself_only() -> None:
    row = RosterRow(session_id="0" * 32, name="bcd")
    assert matches("b", row)
    assert not matches("x", row)


def test_the_letters_of_a_token_stay_within_one_word() -> None:
    assert matches("ft", RosterRow(session_id="0", name="first"))
    assert not matches("ft", RosterRow(session_id="0", name="for two"))


@pytest.mark.timeout(10)
@pytest.mark.parametrize("text", ["a" * 1000, "ab" * 500, "a_" * 500, "-a" * 500])
def test_no_text_makes_the_search_slow(text: str) -> None:
    predicate = parse_filter("aaaaaaaaaaaaaaaab aaaaaaaac!")
    assert predicate is not None
    row = RosterRow(session_id="0", name=text, first_message=text, cwd=text)
    begin = time.perf_counter()
    predicate(row)
    assert time.perf_counter() - begin < 0.25


@given(st.text(max_size=12), st.text(max_size=60))
def test_whatever_is_typed_is_taken_literally(typed: str, name: str) -> None:
    row = RosterRow(session_id="0", name=name)
    predicate = parse_filter(typed)
    if predicate is not None:
        predicate(row)


@given(st.text(alphabet="abc-_ é", max_size=6), st.text(alphabet="abc-_ é", max_size=20))
def test_a_fuzzy_match_is_a_subsequence_of_one_run(typed: str, name: str) -> None:
    predicate = parse_filter(typed)
    tokens = typed.casefold().split()
    if predicate is None or any(not token.replace("_", "a").isalpha() for token in tokens):
        return
    words = name.replace("-", " ").split()
    expected = all(
        token in name or (len(token) > 1 and any(_in_order(token, word) for word in words))
        for token in tokens
    )
    assert predicate(RosterRow(session_id="0", name=name)) == expected


def _in_order(token: str, word: str) -> bool:
    letters = iter(word)
    return all(letter in letters for letter in token)
