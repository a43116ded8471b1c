"""What ↑ and ↓ bring back into the composer: queued prompts, then former ones. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from daemon_client.protocol.replies import QueuedPrompt


class Recall:
    """`editing` is the queued prompt that is being changed, None for anything else."""

    def __init__(self) -> None:
        self.editing: str | None = None
        self._stash = ""
        self._place: int | None = None
        self._shown = ""

    def is_old(self, text: str) -> bool:
        """Whether a text is no draft: a queued prompt, or a former one as it was."""
        return self.editing is not None or (self._place is not None and text == self._shown)

    @property
    def browsing(self) -> bool:
        """Whether a former prompt is shown."""
        return self._place is not None

    def reset(self) -> None:
        """What stands in the composer is new text."""
        self.editing, self._place, self._stash = None, None, ""

    def edit(self, prompt: QueuedPrompt, text: str) -> str:
        """Change a queued prompt; `text` is put aside."""
        if self.editing is None and self._place is None:
            self._stash = text
        self.editing, self._place = prompt.prompt_id, None
        return prompt.text

    def leave(self) -> str:
        """Give up what was brought back; the text that was put aside."""
        text = self._stash
        self.reset()
        return text

    def up(self, text: str, queue: Sequence[QueuedPrompt], history: Sequence[str]) -> str | None:
        """The text to show instead, or None. In an empty composer the queue comes first."""
        own = [prompt for prompt in queue if prompt.source == "person"]
        if self.editing is not None:
            index = self._index(own)
            return self.edit(own[index - 1], text) if index > 0 else None
        if self._place is None and not text and own:
            return self.edit(own[-1], text)
        place = len(history) if self._place is None else self._place
        if place == 0 or not history:
            return None
        if self._place is None:
            self._stash = text
        return self._show(min(place, len(history)) - 1, history)

    def down(self, text: str, queue: Sequence[QueuedPrompt], history: Sequence[str]) -> str | None:
        """Back towards what was being written."""
        own = [prompt for prompt in queue if prompt.source == "person"]
        if self.editing is not None:
            index = self._index(own)
            return self.edit(own[index + 1], text) if index + 1 < len(own) else self.leave()
        if self._place is None:
            return None
        if self._place + 1 < len(history):
            return self._show(self._place + 1, history)
        return self.leave()

    def _show(self, place: int, history: Sequence[str]) -> str:
        self._place, self._shown = place, history[place]
        return self._shown

    def _index(self, own: Sequence[QueuedPrompt]) -> int:
        ids = [prompt.prompt_id for prompt in own]
        return ids.index(self.editing) if self.editing in ids else len(own)
