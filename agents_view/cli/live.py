"""A transcript as it comes (`log --follow`): text flows, a tool shows its begin and end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import tzinfo

import msgspec

from daemon_client.protocol.transcript import (
    MessageEntry,
    PermissionEntry,
    PromptEntry,
    RawEntry,
    ThoughtEntry,
    ToolEntry,
    TranscriptEntry,
)
from daemon_client.text import clean, clean_lines
from daemon_client.transcript_text import TOOL_MARKS, render_plain

_ENDED = frozenset({"completed", "failed"})


class LiveText:
    """Writes entries through `write`, oldest first; texts may come in pieces. `tz` as in `log`."""

    def __init__(self, write: Callable[[str], object], tz: tzinfo | None = None) -> None:
        self._write = write
        self._tz = tz
        self._flowing: type | None = None
        self._at_line_start = True
        self._first: dict[str, ToolEntry] = {}
        self._shown: dict[str, str] = {}
        self._asked: dict[str, str] = {}

    def feed(self, entries: Iterable[TranscriptEntry]) -> None:
        """Write what is new."""
        for entry in entries:
            self._take(entry)

    def end(self) -> None:
        """Finish the line."""
        if not self._at_line_start:
            self._write("\n")
            self._at_line_start = True
        self._flowing = None

    def _take(self, entry: TranscriptEntry) -> None:
        match entry:
            case MessageEntry() | ThoughtEntry():
                self._flow(type(entry), entry.text)
            case PromptEntry() if entry.part:
                self._flow(PromptEntry, entry.text)
            case ToolEntry():
                self._tool(entry)
            case PermissionEntry():
                text = self._asked.setdefault(entry.request_id, entry.text)
                self._whole(msgspec.structs.replace(entry, text=entry.text or text))
            case RawEntry():
                pass  # kept in the record, not drawn (A11)
            case _:
                self._whole(entry)

    def _flow(self, kind: type, text: str) -> None:
        """A piece of running text."""
        if self._flowing is not kind:
            self.end()
            self._put("▸ " if kind is ThoughtEntry else "")
        self._flowing = kind
        self._put(clean_lines(text))

    def _whole(self, entry: TranscriptEntry) -> None:
        text = render_plain([entry], self._tz)
        if text:
            self.end()
            self._put(text)

    def _tool(self, entry: ToolEntry) -> None:
        first = self._first.setdefault(entry.tool_id, entry)
        if first is entry and entry.status in _ENDED:
            self._whole(entry)
        elif first is entry:
            self.end()
            self._put(f"{TOOL_MARKS['running']} {_heading(entry)}\n")
            self._output(entry)
        else:
            self._output(entry)
            if entry.status in _ENDED:
                self.end()
                self._put(
                    render_plain([first, msgspec.structs.replace(entry, output="")], self._tz)
                )
        if entry.status in _ENDED:
            self._first.pop(entry.tool_id)
            self._shown.pop(entry.tool_id, None)

    def _output(self, tool: ToolEntry) -> None:
        """The lines of the output that were not shown yet; all of it if it is another one now."""
        if not tool.output:
            return
        shown = self._shown.get(tool.tool_id, "")
        fresh = tool.output[len(shown) :] if tool.output.startswith(shown) else tool.output
        if tool.status not in _ENDED:
            fresh = fresh[: fresh.rfind("\n") + 1]  # the last line is not whole yet
        self._shown[tool.tool_id] = tool.output[: tool.output.rfind("\n") + 1]
        if fresh:
            self.end()
            for line in clean_lines(fresh.removesuffix("\n")).split("\n"):
                self._put(f"    {line}".rstrip() + "\n")

    def _put(self, text: str) -> None:
        if text:
            self._write(text)
            self._at_line_start = text.endswith("\n")


def _heading(tool: ToolEntry) -> str:
    kind = f"{clean(tool.tool_kind, 40)}  " if tool.tool_kind else ""
    title = clean(tool.title) or ", ".join(clean(place) for place in tool.locations)
    return f"{kind}{title}".rstrip()
