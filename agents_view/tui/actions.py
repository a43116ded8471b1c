"""The one table of actions: id, keys, label, group, and on which screens they work (spec 03.7).

Bindings, key bar, help, palette and the user's key map all come from here.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from textual.binding import Binding, BindingType

Where = Literal["board", "transcript", "composer", "queue"]

KEY_NAMES: Final = {
    "question_mark": "?", "slash": "/", "exclamation_mark": "!", "escape": "esc",
    "space": "space", "colon": ":", "up": "↑", "down": "↓", "left": "←", "right": "→",
    "pageup": "pgup", "pagedown": "pgdn", "delete": "del", "f1": "F1",
}  # fmt: skip


class Action(msgspec.Struct, kw_only=True, frozen=True):
    """`id` is what people remap by; `method` the name of the handler on the screen.

    `bar` orders the key bar (0: not on it), `word` is its word there. `destructive` keys are inert
    right after an involuntary change, and in a burst.
    """

    id: str
    keys: tuple[str, ...]
    label: str
    group: str
    where: tuple[Where, ...]
    method: str
    word: str = ""
    bar: int = 0
    destructive: bool = False
    palette: bool = True
    priority: bool = False


_BOARD: Final = ("board",)
_TRANSCRIPT: Final = ("transcript",)
_COMPOSER: Final = ("composer",)
_QUEUE: Final = ("queue",)
_TALK: Final = ("transcript", "composer", "queue")

ACTIONS: Final[tuple[Action, ...]] = (
    Action(id="list.down", keys=("j", "down"), label="down", group="Move", where=_BOARD,
           method="down", palette=False),
    Action(id="list.up", keys=("k", "up"), label="up", group="Move", where=_BOARD,
           method="up", palette=False),
    Action(id="list.top", keys=("g", "home"), label="first", group="Move", where=_BOARD,
           method="top", palette=False),
    Action(id="list.bottom", keys=("G", "end"), label="last", group="Move", where=_BOARD,
           method="bottom", palette=False),
    Action(id="list.page_down", keys=("ctrl+d", "pagedown"), label="page down", group="Move",
           where=_BOARD, method="page_down", palette=False),
    Action(id="list.page_up", keys=("ctrl+u", "pageup"), label="page up", group="Move",
           where=_BOARD, method="page_up", palette=False),
    Action(id="list.running", keys=("1",), label="to Running", group="Move", where=_BOARD,
           method="to_running"),
    Action(id="list.idle", keys=("2",), label="to Idle", group="Move", where=_BOARD,
           method="to_idle"),
    Action(id="list.inactive", keys=("3",), label="to Inactive", group="Move", where=_BOARD,
           method="to_inactive"),
    Action(id="next.waiting", keys=("tab", "ctrl+o"), label="next that needs you", group="Move",
           where=_BOARD, method="next_waiting", word="next", bar=7),
    Action(id="tree.unfold", keys=("right", "l"), label="unfold children", group="Move",
           where=_BOARD, method="unfold", palette=False),
    Action(id="tree.fold", keys=("left", "h"), label="fold children", group="Move", where=_BOARD,
           method="fold", palette=False),
    Action(id="tree.fold_all", keys=("o",), label="fold all", group="Move", where=_BOARD,
           method="fold_all"),
    Action(id="session.open", keys=("enter",), label="open", group="Session", where=_BOARD,
           method="open", word="open", bar=1),
    Action(id="session.new", keys=("n",), label="new session", group="Session", where=_BOARD,
           method="new", word="new", bar=3),
    Action(id="session.rename", keys=("r",), label="rename", group="Session", where=_BOARD,
           method="rename", word="rename", bar=10),
    Action(id="session.answer", keys=("exclamation_mark",), label="answer what it asks",
           group="Session", where=_BOARD, method="answer", word="answer", bar=2),
    Action(id="session.cancel", keys=("x",), label="cancel the turn", group="Session",
           where=_BOARD, method="cancel_turn", word="cancel turn", bar=6, destructive=True),
    Action(id="session.wake", keys=("w",), label="wake", group="Session", where=_BOARD,
           method="wake", word="wake", bar=6),
    Action(id="session.retry", keys=("R",), label="start again after a failure", group="Session",
           where=_BOARD, method="retry", word="retry", bar=6),
    Action(id="session.archive", keys=("a",), label="archive", group="Session", where=_BOARD,
           method="archive", word="archive", bar=9, destructive=True),
    Action(id="session.delete", keys=("d",), label="delete…", group="Session", where=_BOARD,
           method="delete", word="delete", bar=8, destructive=True),
    Action(id="session.undo", keys=("u",), label="undo", group="Session", where=_BOARD,
           method="undo"),
    Action(id="session.copy_id", keys=("y",), label="copy the id", group="Session", where=_BOARD,
           method="copy_id"),
    Action(id="board.filter", keys=("slash",), label="filter", group="Board", where=_BOARD,
           method="filter", word="filter", bar=4),
    Action(id="board.archived", keys=("A",), label="show archived", group="Board", where=_BOARD,
           method="toggle_archived"),
    Action(id="board.repaint", keys=("ctrl+l",), label="repaint", group="Board", where=_BOARD,
           method="repaint"),
    Action(id="board.palette", keys=("ctrl+p", "colon"), label="command palette", group="Board",
           where=_BOARD, method="palette", word="all commands", bar=20, palette=False),
    Action(id="board.help", keys=("question_mark", "f1"), label="help", group="Board",
           where=_BOARD, method="help"),
    Action(id="board.back", keys=("escape",), label="leave the filter", group="Board",
           where=_BOARD, method="back", palette=False),
    Action(id="app.quit", keys=("q",), label="quit (sessions live on)", group="Board",
           where=_BOARD, method="quit", word="quit", bar=21),
    # --- the session screen; its handlers are on the screen, whichever widget has the focus
    Action(id="talk.repaint", keys=("ctrl+l",), label="repaint", group="Session", where=_TALK,
           method="app.repaint", palette=False),
    Action(id="prompt.send", keys=("enter",), label="send, or queue behind the turn",
           group="Write", where=_COMPOSER, method="screen.send", palette=False),
    Action(id="prompt.newline", keys=("shift+enter", "ctrl+j"), label="new line", group="Write",
           where=_COMPOSER, method="screen.newline", palette=False),
    Action(id="prompt.steer", keys=("ctrl+s",), label="steer: cancel the turn, then this prompt",
           group="Write", where=_COMPOSER, method="screen.steer", word="steer", bar=2),
    Action(id="prompt.editor", keys=("ctrl+g",), label="write in your editor", group="Write",
           where=_COMPOSER, method="screen.editor", word="editor", bar=4),
    Action(id="prompt.leave", keys=("escape",), label="to the transcript", group="Write",
           where=_COMPOSER, method="screen.leave_composer", word="transcript", bar=6,
           palette=False),
    Action(id="turn.cancel", keys=("ctrl+x",), label="cancel the turn", group="Session",
           where=_TALK, method="screen.cancel_turn", word="cancel turn", bar=3),
    Action(id="talk.next", keys=("ctrl+o",), label="next that needs you", group="Move",
           where=_TALK, method="screen.next_waiting", word="next that needs you", bar=5),
    Action(id="talk.next_tab", keys=("tab",), label="next that needs you", group="Move",
           where=("transcript", "queue"), method="screen.next_waiting", palette=False),
    Action(id="talk.help", keys=("f1",), label="help", group="Session", where=_TALK,
           method="screen.help", palette=False),
    Action(id="transcript.help", keys=("question_mark",), label="help", group="Session",
           where=("transcript", "queue"), method="screen.help", palette=False),
    Action(id="transcript.write", keys=("enter",), label="write", group="Write",
           where=_TRANSCRIPT, method="screen.write", word="write", bar=1, palette=False),
    Action(id="transcript.down", keys=("j", "down"), label="next block", group="Move",
           where=_TRANSCRIPT, method="screen.down", palette=False),
    Action(id="transcript.up", keys=("k", "up"), label="block before", group="Move",
           where=_TRANSCRIPT, method="screen.up", palette=False),
    Action(id="transcript.top", keys=("g", "home"), label="to the beginning", group="Move",
           where=_TRANSCRIPT, method="screen.top", palette=False),
    Action(id="transcript.bottom", keys=("G", "end"), label="to the end, and follow",
           group="Move", where=_TRANSCRIPT, method="screen.bottom", word="end", bar=4,
           palette=False),
    Action(id="transcript.page_down", keys=("ctrl+d", "pagedown"), label="page down",
           group="Move", where=_TRANSCRIPT, method="screen.page_down", palette=False),
    Action(id="transcript.page_up", keys=("ctrl+u", "pageup"), label="page up", group="Move",
           where=_TRANSCRIPT, method="screen.page_up", palette=False),
    Action(id="transcript.fold", keys=("o",), label="open or fold this block", group="Session",
           where=_TRANSCRIPT, method="screen.fold", word="open or fold", bar=2, palette=False),
    Action(id="transcript.fold_all", keys=("O",), label="fold or open all", group="Session",
           where=_TRANSCRIPT, method="screen.fold_all", palette=False),
    Action(id="transcript.copy", keys=("y",), label="copy this block as it came",
           group="Session", where=_TRANSCRIPT, method="screen.copy", word="copy", bar=7,
           palette=False),
    Action(id="transcript.wake", keys=("w",), label="wake", group="Session",
           where=_TRANSCRIPT, method="screen.wake", word="wake", bar=3),
    Action(id="transcript.retry", keys=("R",), label="start again after a failure",
           group="Session", where=_TRANSCRIPT, method="screen.retry", word="retry", bar=3),
    Action(id="transcript.queue", keys=("Q",), label="to the queue", group="Session",
           where=_TRANSCRIPT, method="screen.to_queue", word="queue", bar=6, palette=False),
    Action(id="transcript.back", keys=("escape", "q", "left", "h"), label="to the board",
           group="Move", where=_TRANSCRIPT, method="screen.back", word="board", bar=8,
           palette=False),
    Action(id="queue.up", keys=("k", "up"), label="prompt before", group="Queue", where=_QUEUE,
           method="screen.queue_up", palette=False),
    Action(id="queue.down", keys=("j", "down"), label="next prompt", group="Queue",
           where=_QUEUE, method="screen.queue_down", palette=False),
    Action(id="queue.edit", keys=("enter",), label="edit", group="Queue", where=_QUEUE,
           method="screen.queue_edit", word="edit", bar=1, palette=False),
    Action(id="queue.remove", keys=("delete", "d"), label="remove", group="Queue", where=_QUEUE,
           method="screen.queue_remove", word="remove", bar=2, destructive=True, palette=False),
    Action(id="queue.back", keys=("escape", "q", "left"), label="back to writing",
           group="Queue", where=_QUEUE, method="screen.write", word="back", bar=3,
           palette=False),
)  # fmt: skip


def actions_for(where: Where) -> list[Action]:
    """The actions of a screen, in the order of the table."""
    return [action for action in ACTIONS if where in action.where]


def bindings_for(where: Where) -> list[BindingType]:
    """The bindings of a screen; each bears its action's id, by which it can be remapped."""
    return [
        Binding(
            ",".join(action.keys),
            action.method,
            action.label,
            id=action.id,
            show=False,
            priority=action.priority,
        )
        for action in actions_for(where)
    ]


def key_name(key: str) -> str:
    """A key as people call it."""
    return KEY_NAMES.get(key, key)
