"""How a turn ended, from what the agent answered or how it went away (A3). Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from agents_view.acp.client import AgentError
from daemon_client.text import cause_text, clean

TurnState = Literal["done", "interrupted"]


class TurnEnd(msgspec.Struct, kw_only=True, frozen=True):
    """`state` is what the prompt's row says; `tools` the status of tools left open (A12)."""

    state: TurnState
    stop_reason: str
    cause: str = ""

    @property
    def tools(self) -> str:
        return "completed" if self.stop_reason == "end_turn" else "failed"


def answered(stop_reason: str) -> TurnEnd:
    """The agent said how it ended."""
    return TurnEnd(state="done", stop_reason=clean(stop_reason, 80))


def refused(error: AgentError) -> TurnEnd:
    """The agent answered with an error and lives on: the turn is over, the session usable."""
    return TurnEnd(state="done", stop_reason="error", cause=cause_text(error.message))


def cut_off(cause: str) -> TurnEnd:
    """The agent, its worker or the daemon went away in the middle. Never replayed."""
    return TurnEnd(state="interrupted", stop_reason="interrupted", cause=cause_text(cause))


UNCONFIRMED = TurnEnd(
    state="done", stop_reason="cancelled", cause="unconfirmed: the agent was replaced"
)
"""A cancel the agent did not answer in time."""
