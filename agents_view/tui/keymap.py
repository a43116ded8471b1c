"""The user's own keys: `[keys]` maps action ids to keys; what is wrong is said, not swallowed."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import msgspec

from agents_view.tui.actions import ACTIONS, Where


class Keymap(msgspec.Struct, kw_only=True, frozen=True):
    """Keys by action id, and sentences about entries that could not be used."""

    keys: dict[str, tuple[str, ...]]
    problems: tuple[str, ...] = ()

    def of(self, action_id: str) -> tuple[str, ...]:
        return self.keys[action_id]

    @property
    def overrides(self) -> dict[str, str]:
        """For `App.set_keymap`: what differs from the table."""
        default = {action.id: action.keys for action in ACTIONS}
        return {key: ",".join(k) for key, k in self.keys.items() if k != default[key]}


def build_keymap(wanted: Mapping[str, str]) -> Keymap:
    """The table's keys with the user's over them. A conflict keeps the table's key."""
    keys = {action.id: action.keys for action in ACTIONS}
    problems: list[str] = []
    for action_id, text in wanted.items():
        chosen = tuple(part.strip() for part in text.split(",") if part.strip())
        if action_id not in keys:
            near = difflib.get_close_matches(action_id, keys, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            problems.append(f"[keys] {action_id}: no such action{hint}")
        elif not chosen:
            problems.append(f"[keys] {action_id}: no key given")
        elif clash := _clash(action_id, chosen, keys):
            problems.append(f"[keys] {action_id}: {clash}")
        else:
            keys[action_id] = chosen
    return Keymap(keys=keys, problems=tuple(problems))


def _clash(action_id: str, chosen: tuple[str, ...], keys: Mapping[str, tuple[str, ...]]) -> str:
    """A key that another action of the same screen has already."""
    mine = _where(action_id)
    for other in ACTIONS:
        if other.id != action_id and mine & set(other.where):
            for key in set(chosen) & set(keys[other.id]):
                return f"{key} is taken by {other.id}"
    return ""


def _where(action_id: str) -> set[Where]:
    return {place for action in ACTIONS if action.id == action_id for place in action.where}
