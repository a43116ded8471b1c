"""Session updates become transcript entries and facts; no kind is dropped (A1, A4, A11, A12)."""

from __future__ import annotations

import msgspec

from agents_view.acp.schema import Content, ToolCall, Update
from agents_view.daemon.worker.facts import Offer, Work, options_offer
from agents_view.daemon.worker.tools import Tools
from daemon_client.protocol.transcript import (
    MessageEntry,
    PlanEntry,
    PlanItem,
    RawEntry,
    ThoughtEntry,
    ToolEntry,
    TranscriptEntry,
)
from daemon_client.text import clean


class Reader:
    """Reads the updates of one session. `work` is None outside a turn: then nothing is work."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self.offer = Offer()
        self.echo = ""

    def replayed(self, update: Update) -> None:
        """History is history: only what is offered now is taken from it (A4)."""
        self._take_offer(update)

    def live(self, update: Update, raw: bytes, work: Work | None) -> TranscriptEntry | None:
        """The entry to record (None: an echo of our own prompt), with `work` brought up to date."""
        self._take_offer(update)
        kind = update.session_update
        try:
            entry = self._entry(kind, update, raw)
        except msgspec.MsgspecError:
            return RawEntry(update=clean(kind, 80), json=raw.decode("utf-8", "replace"))
        if work is not None and entry is not None:
            self._mark(work, entry)
        return entry

    def _entry(self, kind: str, update: Update, raw: bytes) -> TranscriptEntry | None:
        if kind in ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk"):
            return self._chunk(kind, msgspec.json.decode(update.content, type=Content).shown, raw)
        if kind in ("tool_call", "tool_call_update"):
            call = msgspec.json.decode(raw, type=ToolCall)
            status = "pending" if kind == "tool_call" else "in_progress"
            return self._tools.upsert(call, default_status=status)
        if kind == "plan":
            items = tuple(
                PlanItem(text=step.content, status=step.status) for step in update.entries or ()
            )
            return PlanEntry(items=items)
        return RawEntry(update=clean(kind, 80), json=raw.decode("utf-8", "replace"))

    def _chunk(self, kind: str, text: str, raw: bytes) -> TranscriptEntry | None:
        if kind == "agent_message_chunk":
            return MessageEntry(text=text)
        if kind == "agent_thought_chunk":
            return ThoughtEntry(text=text)
        if text and text in self.echo:
            return None  # the agent repeats what we said: shown once (A12)
        return RawEntry(update=kind, json=raw.decode("utf-8", "replace"))

    def _mark(self, work: Work, entry: TranscriptEntry) -> None:
        if isinstance(entry, MessageEntry):
            if entry.text:
                work.turn = "writing"
                work.said_something = True
        elif isinstance(entry, ThoughtEntry):
            work.turn = "thinking"
        elif isinstance(entry, ToolEntry):
            work.turn = "tools" if self._tools.open else "thinking"

    def _take_offer(self, update: Update) -> None:
        offer, choices = self.offer, self.offer.choices
        if update.available_commands is not None:
            names = tuple(clean(c.name, 80) for c in update.available_commands if c.name)
            choices = msgspec.structs.replace(choices, commands=names)
            offer = msgspec.structs.replace(offer, choices=choices)
        if update.current_mode_id is not None:
            offer = msgspec.structs.replace(offer, mode=clean(update.current_mode_id, 120))
        if update.config_options is not None:
            fresh = options_offer(update.config_options)
            shown = msgspec.structs.replace(
                offer.choices,
                modes=fresh.choices.modes or offer.choices.modes,
                models=fresh.choices.models or offer.choices.models,
            )
            offer = msgspec.structs.replace(
                offer,
                choices=shown,
                mode=fresh.mode or offer.mode,
                model=fresh.model or offer.model,
            )
        self.offer = offer
