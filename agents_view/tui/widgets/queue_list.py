"""The prompts that wait for their turn, over the composer; editable and removable (look 06)."""

from __future__ import annotations

from collections.abc import Sequence

from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from agents_view.board.session_lines import Outgoing, queue_lines
from agents_view.board.transcript.ascii import in_ascii
from agents_view.tui.actions import bindings_for
from agents_view.tui.strips import blank, strip_of
from agents_view.tui.theme import Palette
from daemon_client.protocol.replies import QueuedPrompt

_KEYS_WRITING = (("up", "edit"),)
_KEYS_EDITING = (("enter", "save"), ("esc", "leave"))
_KEYS_CHOOSING = (("enter", "edit"), ("del", "remove"))


class QueueList(Widget, can_focus=True):
    """As high as its content; nothing at all when the queue is empty."""

    DEFAULT_CSS = "QueueList { height: 0; width: 100%; background: $background; margin: 0; }"
    BINDINGS = bindings_for("queue")

    class Emptied(Message):
        """The last prompt has gone while the list had the focus."""

    def __init__(self, palette: Palette, *, ascii_only: bool = False) -> None:
        super().__init__()
        self.queue: tuple[QueuedPrompt, ...] = ()
        self.outgoing: list[Outgoing] = []
        self.chosen: str | None = None
        self.editing = False
        self._palette = palette
        self._ascii = ascii_only

    def show(self, queue: Sequence[QueuedPrompt]) -> None:
        """Another queue; the choice stays with its prompt."""
        ids = [prompt.prompt_id for prompt in self.queue]
        index = ids.index(self.chosen) if self.chosen in ids else 0
        self.queue = tuple(queue)
        left = [prompt.prompt_id for prompt in self.queue]
        if self.chosen is not None and self.chosen not in left:
            self.chosen = left[min(index, len(left) - 1)] if left and self.has_focus else None
        if not left and self.has_focus:
            self.post_message(self.Emptied())
        self.update()

    def update(self) -> None:
        """Take the height the content needs, and draw it."""
        lines = len(self._content(80))
        self.styles.height = lines
        self.display = lines > 0
        self.refresh()

    def set_look(self, palette: Palette, *, ascii_only: bool) -> None:
        """Another theme."""
        self._palette, self._ascii = palette, ascii_only
        self.refresh()

    def move(self, step: int) -> None:
        """Choose the next or previous prompt; at the ends it stays."""
        ids = [prompt.prompt_id for prompt in self.queue]
        if ids:
            index = ids.index(self.chosen) if self.chosen in ids else len(ids)
            self.chosen = ids[min(max(0, index + step), len(ids) - 1)]
            self.refresh()

    def chosen_prompt(self) -> QueuedPrompt | None:
        """The prompt keys act on."""
        return next((p for p in self.queue if p.prompt_id == self.chosen), None)

    def on_focus(self) -> None:
        if self.chosen_prompt() is None and self.queue:
            self.chosen = self.queue[-1].prompt_id
        self.refresh()

    def on_blur(self) -> None:
        if not self.editing:
            self.chosen = None
        self.refresh()

    def _content(self, width: int) -> list[list]:
        keys = _KEYS_CHOOSING if self.has_focus else _KEYS_WRITING
        if self.editing:
            keys = _KEYS_EDITING
        lines = queue_lines(
            self.queue,
            self.outgoing,
            width,
            chosen=self.chosen,
            keys=keys if self.queue else (),
        )
        return [list(line) for line in lines]

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        lines = self._content(width)
        if y >= len(lines):
            return blank(width, self._palette)
        pieces = in_ascii(lines[y]) if self._ascii else lines[y]
        return strip_of(pieces, width, self._palette)
