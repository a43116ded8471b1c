"""SESSION on the command line: id, exact name, then the end of an id (spec 09)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.resolve import is_full_id, resolve
from daemon_client.roster import RosterRow

ONE = "01a2301339e87e3c9aad6f1d8c29abcd"
TWO = "01a2301339e97e3c9aad6f1d8c2babcd"
THREE = "01a2301339ea7e3c9aad6f1d8c2c0123"


def rows(*names: str | None) -> list[RosterRow]:
    ids = (ONE, TWO, THREE)
    return [RosterRow(session_id=key, name=name) for key, name in zip(ids, names, strict=False)]


def failure(text: str, known: list[RosterRow]) -> DaemonError:
    with pytest.raises(DaemonError) as caught:
        resolve(text, known)
    return caught.value


def test_an_id_wins_over_a_name_that_looks_like_it() -> None:
    assert resolve(ONE, rows("a", ONE)) == ONE


def test_an_exact_name_wins_over_the_end_of_an_id() -> None:
    assert resolve("0123", rows("0123", "b", "c")) == ONE
    assert resolve("0123", rows("a", "b", "c")) == THREE


def test_the_end_of_an_id_may_be_typed_in_capitals() -> None:
    assert resolve("2BABCD", rows("a", "b")) == TWO


def test_a_name_is_exact() -> None:
    assert failure("alph", rows("alpha")).code is ErrorCode.NOT_FOUND
    assert failure("Alpha", rows("alpha")).code is ErrorCode.NOT_FOUND


def test_three_characters_of_an_id_are_not_enough() -> None:
    error = failure("bcd", rows("a"))
    assert error.code is ErrorCode.NOT_FOUND and "four" in error.message


@pytest.mark.parametrize("text", ["abcd", "same"])
def test_what_means_two_sessions_names_the_candidates(text: str) -> None:
    error = failure(text, rows("same", "same", "c"))
    assert error.code is ErrorCode.AMBIGUOUS
    assert [line.split()[0] for line in error.detail] == [ONE, TWO]
    assert all("same" in line for line in error.detail)


def test_an_unnamed_candidate_is_shown_by_its_first_message() -> None:
    known = [RosterRow(session_id=key, first_message="fix it") for key in (ONE, TWO)]
    assert all("fix it" in line for line in failure("abcd", known).detail)


def test_candidates_and_messages_carry_no_control_characters() -> None:
    error = failure("abcd", rows("\x1b[31mred\x07", "two\nlines"))
    shown = "".join((error.message, *error.detail))
    assert not any(ord(letter) < 32 for letter in shown)
    assert "\x1b" not in failure("\x1b[2J", rows("a")).message


@pytest.mark.parametrize("text", ["", " "])
def test_nothing_means_nothing(text: str) -> None:
    assert failure(text, rows(None, None)).code is ErrorCode.NOT_FOUND


def test_only_a_whole_id_may_be_one_in_the_trash() -> None:
    assert is_full_id(ONE)
    assert not any(map(is_full_id, (ONE[1:], ONE + "0", ONE.upper(), "g" * 32, "")))


@given(
    st.lists(st.from_regex(r"[0-9a-f]{32}", fullmatch=True), min_size=1, max_size=8, unique=True),
    st.integers(min_value=4, max_value=32),
    st.data(),
)
def test_the_end_of_an_id_finds_its_session_or_says_that_it_is_shared(
    ids: list[str], length: int, data: st.DataObject
) -> None:
    wanted = data.draw(st.sampled_from(ids))
    known = [RosterRow(session_id=key) for key in ids]
    sharing = [key for key in ids if key.endswith(wanted[-length:])]
    if len(sharing) == 1:
        assert resolve(wanted[-length:], known) == wanted
    else:
        assert failure(wanted[-length:], known).code is ErrorCode.AMBIGUOUS
