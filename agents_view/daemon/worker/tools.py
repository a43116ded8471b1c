"""The tool calls of a turn, upserted by id from wherever an agent mentions them first (A12)."""

from __future__ import annotations

from agents_view.acp.schema import ToolCall, ToolContent
from daemon_client.protocol.transcript import Diff, ToolEntry
from daemon_client.text import clean

_OPEN = ("", "pending", "in_progress")


class Tools:
    """What is known about each tool call; open ones keep the row "running tools"."""

    def __init__(self) -> None:
        self._known: dict[str, ToolEntry] = {}

    def upsert(self, call: ToolCall, *, default_status: str = "") -> ToolEntry:
        """Merge what this message says into what is known; returns the entry to record."""
        before = self._known.get(call.tool_call_id)
        said = ToolEntry(
            tool_id=call.tool_call_id,
            title=call.title or "",
            tool_kind=call.kind or "",
            status=call.status or (default_status if before is None else ""),
            output=_output(call.content),
            diffs=_diffs(call.content),
            locations=tuple(place.shown for place in call.locations or () if place.path),
        )
        self._known[call.tool_call_id] = said if before is None else _merged(before, said)
        return said

    def get(self, tool_id: str) -> ToolEntry | None:
        return self._known.get(tool_id)

    @property
    def open(self) -> list[ToolEntry]:
        """Those that have not ended, oldest first."""
        return [tool for tool in self._known.values() if tool.status in _OPEN]

    @property
    def label(self) -> str | None:
        """What runs now, in a few words: the newest open call."""
        titles = [tool.title or tool.tool_kind for tool in self.open]
        return clean(titles[-1], 200) if titles and titles[-1] else None

    def close_open(self, status: str) -> list[ToolEntry]:
        """The turn is over: whatever an agent forgot to close ends with it (A12)."""
        closed = [ToolEntry(tool_id=tool.tool_id, status=status) for tool in self.open]
        for entry in closed:
            self._known[entry.tool_id] = _merged(self._known[entry.tool_id], entry)
        return closed

    def forget(self) -> None:
        """A new turn begins; late updates of old calls are recorded all the same."""
        self._known.clear()


def _merged(before: ToolEntry, said: ToolEntry) -> ToolEntry:
    return ToolEntry(
        tool_id=before.tool_id,
        title=said.title or before.title,
        tool_kind=said.tool_kind or before.tool_kind,
        status=said.status or before.status,
        output=None,
        locations=said.locations or before.locations,
    )


def _output(content: tuple[ToolContent, ...] | None) -> str | None:
    if content is None:
        return None
    texts = [part.content.shown for part in content if part.content is not None]
    return "\n".join(texts) if texts else None


def _diffs(content: tuple[ToolContent, ...] | None) -> tuple[Diff, ...]:
    return tuple(
        Diff(path=part.path, old_text=part.old_text or "", new_text=part.new_text or "")
        for part in content or ()
        if part.type == "diff" or part.new_text is not None
    )


def command_of(call: ToolCall, known: ToolEntry | None) -> str:
    """The whole text that would be carried out, never cut (spec 03.3)."""
    given = call.input()
    for value in (given.command, given.cmd):
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value:
            return " ".join(str(word) for word in value)
    shown = _output(call.content)
    path = given.file_path or given.path
    parts = [call.title or (known.title if known else ""), str(path) if path else "", shown or ""]
    return "\n".join(dict.fromkeys(part for part in parts if part))
