"""What a session's transcript holds, entry by entry (spec 07.4, 08).

The transcript is our own record, whatever the agent keeps (A14). It is append-only: a later entry
may continue an earlier one (text chunks of one message, updates of one tool call); readers fold
them together (`daemon_client.transcript.fold`).
"""

from __future__ import annotations

from typing import Literal

import msgspec

PromptSource = Literal["person", "agent", "job"]
NoticeLevel = Literal["info", "warning", "error"]


class Entry(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, tag_field="kind"):
    """`seq` counts the entries of one session from 1; `at_ms` is the wall clock, ms UTC."""

    seq: int = 0
    at_ms: int = 0


class PromptEntry(Entry, kw_only=True, frozen=True, tag="prompt"):
    """A prompt that was handed to the agent: a turn began."""

    prompt_id: str
    text: str
    source: PromptSource = "person"
    part: int = 0


class MessageEntry(Entry, kw_only=True, frozen=True, tag="message"):
    """A piece of the agent's answer."""

    text: str


class ThoughtEntry(Entry, kw_only=True, frozen=True, tag="thought"):
    """A piece of the agent's thinking."""

    text: str


class Diff(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A change of one file, as the agent reports it."""

    path: str
    old_text: str = ""
    new_text: str = ""


class ToolEntry(Entry, kw_only=True, frozen=True, tag="tool"):
    """The state of one tool call now; an empty field means "as before"."""

    tool_id: str
    title: str = ""
    tool_kind: str = ""
    status: str = ""
    output: str | None = None
    diffs: tuple[Diff, ...] = ()
    locations: tuple[str, ...] = ()


class PlanItem(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """One step of the agent's plan."""

    text: str
    status: str = "pending"


class PlanEntry(Entry, kw_only=True, frozen=True, tag="plan"):
    """The whole plan as it stands now."""

    items: tuple[PlanItem, ...] = ()


class PermissionEntry(Entry, kw_only=True, frozen=True, tag="permission"):
    """A permission asked for (`outcome` empty), or its end: the chosen option, or why none."""

    request_id: str
    text: str = ""
    outcome: str = ""
    by: Literal["", "person", "policy", "cancel", "expiry"] = ""


class TurnEndEntry(Entry, kw_only=True, frozen=True, tag="turn_end"):
    """A turn ended: the agent's stop reason, or `interrupted` with the cause."""

    prompt_id: str
    stop_reason: str
    cause: str = ""


class NoticeEntry(Entry, kw_only=True, frozen=True, tag="notice"):
    """Something that happened to the session: agent ended, resumed without memory, noise, …"""

    text: str
    level: NoticeLevel = "info"


class RawEntry(Entry, kw_only=True, frozen=True, tag="raw"):
    """An update of a kind we do not draw, kept as the agent's JSON text (A11)."""

    update: str
    json: str = ""


TranscriptEntry = (
    PromptEntry
    | MessageEntry
    | ThoughtEntry
    | ToolEntry
    | PlanEntry
    | PermissionEntry
    | TurnEndEntry
    | NoticeEntry
    | RawEntry
)
