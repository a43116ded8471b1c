"""Messages that cross the whole dashboard; a widget's own are nested in it."""

from __future__ import annotations

from textual.message import Message

from daemon_client.connection import LinkState


class RosterChanged(Message):
    """The mirror has taken over one or more batches; at most one message per frame."""

    def __init__(self, changed: frozenset[str], removed: frozenset[str], *, whole: bool) -> None:
        super().__init__()
        self.changed = changed
        self.removed = removed
        self.whole = whole


class LinkChanged(Message):
    """The connection to the daemon stands otherwise than before."""

    def __init__(self, state: LinkState) -> None:
        super().__init__()
        self.state = state


class Tick(Message):
    """A second has passed."""

    def __init__(self, now_ms: int, *, beat: bool) -> None:
        super().__init__()
        self.now_ms = now_ms
        self.beat = beat
