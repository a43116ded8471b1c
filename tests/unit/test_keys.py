"""The table of actions, the user's keys over it, and when a key is not meant (spec 03.3, 03.7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agents_view.tui.actions import ACTIONS, actions_for, bindings_for
from agents_view.tui.guard import KeyGuard
from agents_view.tui.keymap import build_keymap
from agents_view.tui.screens.board_actions import BoardActions

# --- the table


def test_ids_are_unique_and_everything_is_said() -> None:
    assert len({action.id for action in ACTIONS}) == len(ACTIONS)
    for action in ACTIONS:
        assert action.keys and action.label and action.group and action.where, action.id
        assert not action.bar or action.word, action.id


@pytest.mark.parametrize("where", ["board", "transcript", "composer", "queue"])
def test_no_key_means_two_things_on_one_screen(where: str) -> None:
    keys = [key for action in actions_for(where) for key in action.keys]  # type: ignore[arg-type]
    assert len(keys) == len(set(keys))


def test_no_function_has_only_a_chord_with_alt_or_a_function_key() -> None:
    for action in ACTIONS:
        plain = [key for key in action.keys if not key.startswith(("alt+", "f1", "f2"))]
        assert plain or any(a.label == action.label for a in ACTIONS if a is not action), action.id


def test_every_action_of_the_board_has_its_handler_and_every_binding_its_id() -> None:
    for action in actions_for("board"):
        assert callable(getattr(BoardActions, f"action_{action.method}")), action.id
    ids = {binding.id for binding in bindings_for("board")}  # type: ignore[union-attr]
    assert ids == {action.id for action in actions_for("board")}


def test_the_keys_the_board_promises() -> None:
    keys = {key: action.id for action in actions_for("board") for key in action.keys}
    promised = "j k g G ctrl+d ctrl+u enter l h o 1 2 3 n r x d a u w y q tab ctrl+o ctrl+l ctrl+p"
    named = "up down home end pageup pagedown right left slash colon question_mark f1"
    assert set(promised.split()) | set(named.split()) | {"exclamation_mark"} <= set(keys)


# --- the user's keys


def test_a_key_is_remapped_by_id() -> None:
    keymap = build_keymap({"session.delete": "D, delete"})
    assert keymap.of("session.delete") == ("D", "delete")
    assert keymap.overrides == {"session.delete": "D,delete"}
    assert keymap.problems == ()


def test_an_unknown_id_is_reported_with_what_was_meant() -> None:
    keymap = build_keymap({"session.delet": "D"})
    assert keymap.problems == (
        "[keys] session.delet: no such action: did you mean session.delete?",
    )


@pytest.mark.parametrize("text", ["", " , "])
def test_no_key_is_reported(text: str) -> None:
    assert build_keymap({"session.delete": text}).problems == (
        "[keys] session.delete: no key given",
    )


def test_a_conflict_keeps_the_keys_of_the_table() -> None:
    keymap = build_keymap({"session.delete": "n"})
    assert keymap.of("session.delete") == ("d",)
    assert keymap.problems == ("[keys] session.delete: n is taken by session.new",)


def test_two_actions_may_change_places_on_different_screens() -> None:
    assert build_keymap({"transcript.wake": "n"}).problems == ()


# --- keys that are not meant


class Hand:
    """A clock that is moved by hand, and what was set to happen later."""

    def __init__(self) -> None:
        self.now = 100.0
        self.later: list[tuple[float, Callable[[], None]]] = []

    def set_timer(self, seconds: float, act: Callable[[], None]) -> None:
        self.later.append((self.now + seconds, act))

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        due = [act for at, act in self.later if at <= self.now]
        self.later = [(at, act) for at, act in self.later if at > self.now]
        for act in due:
            act()


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def guard(hand: Hand) -> KeyGuard:
    return KeyGuard(0.4, lambda: hand.now)


def press(guard: KeyGuard, hand: Hand, times: int, apart: float, done: list[int]) -> None:
    for number in range(times):
        guard.pressed()
        guard.deliberately(hand.set_timer, lambda number=number: done.append(number))
        hand.sleep(apart)


def test_a_single_key_acts_a_moment_later(guard: KeyGuard, hand: Hand) -> None:
    done: list[int] = []
    press(guard, hand, 1, 0.0, done)
    assert done == []
    hand.sleep(0.06)
    assert done == [0]


def test_no_key_of_a_burst_acts_not_even_the_first(guard: KeyGuard, hand: Hand) -> None:
    done: list[int] = []
    press(guard, hand, 40, 0.001, done)
    hand.sleep(1)
    assert done == []
    press(guard, hand, 1, 1, done)
    assert done == [0]


def test_a_held_key_is_no_burst(guard: KeyGuard, hand: Hand) -> None:
    done: list[int] = []
    press(guard, hand, 30, 0.033, done)
    hand.sleep(1)
    assert len(done) == 30


def test_a_change_nobody_asked_for_holds_the_keys(guard: KeyGuard, hand: Hand) -> None:
    done: list[int] = []
    guard.changed()
    press(guard, hand, 1, 0.39, done)
    assert done == []
    hand.sleep(0.01)
    press(guard, hand, 1, 1, done)
    assert done == [0]
