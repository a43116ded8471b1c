"""A new session: which agent, where, and its first prompt (spec 03.6)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.text import Text
from textual import on, work
from textual.containers import Horizontal
from textual.content import Content
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from agents_view.board.ink import FAINT, TEXT, Ink, Piece, cut
from agents_view.tui.screens.dialog import Choice, Dialog
from daemon_client.errors import DaemonError
from daemon_client.protocol.replies import AgentInfo
from daemon_client.text import clean

_NAME: Final = 20
_INSIDE: Final = 68
"""Cells between the sides of the dialog."""


class Directories(Suggester):
    """Completes a directory while it is typed."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        """The first directory that begins like this."""
        if not value:
            return None
        path = Path(value).expanduser()
        parent, begin = (path, "") if value.endswith("/") else (path.parent, path.name)
        try:
            names = await asyncio.to_thread(_directories, parent)
        except OSError:
            return None
        for name in names:
            hidden = not begin and name.startswith(".")
            if name.startswith(begin) and not hidden and clean(name) == name:
                return value + name[len(begin) :]
        return None


def _directories(parent: Path) -> list[str]:
    """May be slow (a network file system): never on the loop. Raises `OSError`."""
    with os.scandir(parent) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir())


class NewSession(Dialog[str]):
    """Dismissed with the id of the new session."""

    def __init__(self, cwd: str) -> None:
        super().__init__()
        self._cwd = cwd
        self._agents: tuple[AgentInfo, ...] = ()
        self._busy = False

    def title_text(self) -> str:
        return "New session"

    def choices(self) -> Sequence[Choice]:
        return (
            Choice(key="escape", label="Cancel", action="screen.keep"),
            Choice(key="enter", label="Start", action="screen.start"),
        )

    def body(self) -> Sequence[Widget]:
        self._list = OptionList(markup=False, id="agents")
        directory = Input(self._cwd, id="directory", suggester=Directories())
        self._error = Static("", classes="field-error", markup=False)
        return (
            self._list,
            Static(""),
            _field("directory", directory),
            _field("name", Input(id="name", placeholder="optional", max_length=300)),
            _field("prompt", Input(id="prompt", placeholder="what to do first (optional)")),
            self._error,
        )

    def on_mount(self) -> None:
        self._list.focus()
        self._load()

    @work(exclusive=True, exit_on_error=False)
    async def _load(self) -> None:
        try:
            found = await self.board_app.client.service.agents()
        except DaemonError as error:
            self._fail(error)
            return
        self._agents = found.agents
        self._list.clear_options()
        self._list.add_options(
            [Option(self._line(agent), disabled=not agent.found) for agent in found.agents]
        )
        self._list.highlighted = next((i for i, a in enumerate(found.agents) if a.found), None)

    def _line(self, agent: AgentInfo) -> Content:
        """Found ones as text, the others faint with how to get them on the same line."""
        name = f" {cut(clean(agent.name, 30), _NAME - 2):<{_NAME}}"
        # what is left of the dialog's inside, a scroll bar aside
        room = max(4, min(_INSIDE, self.app.size.width - 8) - _NAME - 2)
        if agent.found:
            pieces: list[Piece] = [(name, TEXT), (cut(clean(agent.command, 200), room), FAINT)]
        else:
            hint = clean(agent.hint or "not found", 200)
            pieces = [(name, FAINT), (cut(hint, room), FAINT)]
        text: Text = self.text_of(pieces)
        return Content.from_rich_text(text)

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _enter(self, event: Input.Submitted | OptionList.OptionSelected) -> None:
        """Enter goes on to the next field, and starts from the last one."""
        if isinstance(event, Input.Submitted) and event.input.id == "prompt":
            self.action_start()
        elif isinstance(event, OptionList.OptionSelected):
            self.query_one("#prompt").focus()
        else:
            self.focus_next()

    def action_start(self) -> None:
        index = self._list.highlighted
        if self._busy or index is None or index >= len(self._agents):
            return
        self._busy = True
        self._start(self._agents[index])

    @work(exit_on_error=False)
    async def _start(self, agent: AgentInfo) -> None:
        cwd = str(Path(self._value("directory")).expanduser())
        prompt = self._value("prompt")
        try:
            row = await self.board_app.client.sessions.create(
                agent.id,
                cwd,
                name=self._value("name") or None,
                prompt=prompt or None,
                draft=not prompt,
                environ=dict(os.environ),
            )
        except DaemonError as error:
            self._fail(error)
            return
        finally:
            self._busy = False
        self.dismiss(row.session_id)

    def _value(self, field: str) -> str:
        return self.query_one(f"#{field}", Input).value.strip()

    def _fail(self, error: DaemonError) -> None:
        pieces: list[Piece] = [("✗ ", Ink("error")), (clean(error.message, 400), TEXT)]
        pieces.extend((f"\n  {clean(line, 200)}", FAINT) for line in error.detail[:8])
        self._error.update(self.text_of(pieces))


def _field(label: str, field: Input) -> Horizontal:
    return Horizontal(Static(label, classes="field-label", markup=False), field, classes="field")
