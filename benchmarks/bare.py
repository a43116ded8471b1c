"""The baseline: the smallest Textual app. `j` redraws its one line."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.widgets import Static


class Bare(App[None]):
    """One `Static`, nothing else."""

    BINDINGS = [Binding("j", "again", show=False), Binding("q", "quit", show=False)]
    count = 0

    def compose(self) -> ComposeResult:
        self.line = Static("bare app 0", markup=False)
        yield self.line

    def action_again(self) -> None:
        self.count += 1
        self.line.update(f"bare app {self.count}", layout=False)


if __name__ == "__main__":
    Bare().run()
