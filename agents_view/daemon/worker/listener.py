"""What one agent process says, as it says it (A1, A4–A6, A11–A13).

Each start of an agent has a listener of its own: what an agent that was let go still says is
nobody's any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from agents_view.acp.client import PermissionAsked
from agents_view.acp.schema import Update
from agents_view.daemon.worker.permissions import chosen_by_policy
from agents_view.daemon.worker.state import SessionState
from agents_view.daemon.worker.tools import command_of
from daemon_client.protocol.transcript import MessageEntry, PermissionEntry, ToolEntry
from daemon_client.text import clean, clean_lines

_MOST_NOISE: Final = 50
"""Lines that are no messages and are shown, each turn; the others are counted."""


class Listener:
    """The `AgentEvents` of one agent; `ended` is called when its connection ends by itself."""

    def __init__(self, state: SessionState, ended: Callable[[], None]) -> None:
        self._state = state
        self._ended = ended
        self._muted = False
        self._noise = 0

    def mute(self) -> None:
        """Its process is gone, or somebody is ending it."""
        self._muted = True

    # AgentEvents

    def on_update(self, update: Update, raw: bytes, *, replay: bool) -> None:
        state = self._state
        before = state.reader.offer
        if replay:
            state.reader.replayed(update)
        else:
            self._live(update, raw)
        offer = state.reader.offer
        if offer is not before:
            state.counters.mode = offer.mode or state.counters.mode
            state.counters.model = offer.model or state.counters.model
            state.all_changed()

    def _live(self, update: Update, raw: bytes) -> None:
        state = self._state
        state.last_update_ms = state.clock.now_ms()
        if state.work is not None:
            state.work.quiet_since_ms = None
        entry = state.reader.live(update, raw, state.work)
        if entry is None:
            return
        state.journal.add(entry)
        if isinstance(entry, (MessageEntry, ToolEntry)):
            state.touch()
        state.changed()

    def on_permission(self, asked: PermissionAsked) -> None:
        """Parked, unless a policy answers; the tool it is about may be new to us (A12)."""
        state = self._state
        known = state.tools.get(asked.tool.tool_call_id)
        entry = state.tools.upsert(asked.tool, default_status="pending")
        if known is None or entry.title or entry.output or entry.diffs:
            state.journal.add(entry)
        tool = state.tools.get(asked.tool.tool_call_id) or entry
        command = command_of(asked.tool, known)
        text = tool.title or command or "something"
        request = state.permissions.park(asked, text, command, state.clock.now_ms())
        state.journal.add(
            PermissionEntry(request_id=request.request_id, text=clean_lines(command or text))
        )
        option_id = chosen_by_policy(asked, tool.tool_kind, self._allowed_kinds())
        if option_id is not None:
            option = state.permissions.answer(request.request_id, option_id)
            state.outcome(request.request_id, option.name or option.kind, "policy")
        state.all_changed()

    def _allowed_kinds(self) -> tuple[str, ...]:
        own = self._state.agent.entry.permissions if self._state.agent else ()
        return (*self._state.shared.settings.permissions.allow, *own)

    def on_noise(self, text: str) -> None:
        """Kept and shown, not fatal (A6)."""
        self._noise += 1
        if self._noise <= _MOST_NOISE:
            self._state.notice(f"the agent printed: {clean(text, 1000)}", "info")

    def turn_over(self) -> None:
        """Say how much more was printed than was shown."""
        more, self._noise = self._noise - _MOST_NOISE, 0
        if more > 0:
            self._state.notice(f"the agent printed {more} more lines that are no messages", "info")

    def on_closed(self, reason: str) -> None:
        if not self._muted:
            self._ended()
