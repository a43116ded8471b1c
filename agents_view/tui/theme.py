"""Colours: two themes of our own, and the same tokens for every other Textual theme (look.md 1).

Every text token keeps a contrast of 4.5 on every ground it may stand on; `lifted` sees to that
for themes that were not made with it in mind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.color import Color as RichColor
from rich.style import Style
from textual.color import Color
from textual.theme import Theme

from agents_view.board.ink import Ink

DARK: Final[Mapping[str, str]] = {
    "text": "#e0e6ef", "muted": "#aab4c3", "faint": "#929dae", "accent": "#84b6ff",
    "running": "#74d195", "attention": "#f3bd52", "error": "#ff8a85", "schedule": "#eba0cb",
    "bg": "#10141b", "bar": "#181d26", "panel": "#1a202a", "field": "#222a37",
    "sel": "#203150", "selblur": "#1f2733", "line": "#343d4c", "addbg": "#16291f",
    "delbg": "#331d22", "warnbg": "#33291a", "chip": "#f3bd52", "chipink": "#10141b",
    "onfill": "#10141b",
}  # fmt: skip
LIGHT: Final[Mapping[str, str]] = {
    "text": "#1b222d", "muted": "#48515f", "faint": "#5c6573", "accent": "#1a58b8",
    "running": "#17703a", "attention": "#8a5300", "error": "#b0231c", "schedule": "#9a2a70",
    "bg": "#fcfcfa", "bar": "#f0f0ec", "panel": "#f6f6f2", "field": "#eaeae5",
    "sel": "#d6e5fc", "selblur": "#e9ecf0", "line": "#cbcbc4", "addbg": "#e2f3e6",
    "delbg": "#fbe5e3", "warnbg": "#fbeed6", "chip": "#f5c45e", "chipink": "#1b222d",
    "onfill": "#ffffff",
}  # fmt: skip
ANSI: Final[Mapping[str, str]] = {
    "text": "default", "muted": "default", "faint": "default", "accent": "blue",
    "running": "green", "attention": "yellow", "error": "red", "schedule": "magenta",
    "bg": "default", "bar": "default", "panel": "default", "field": "default", "sel": "default",
    "selblur": "default", "line": "default", "addbg": "default", "delbg": "default",
    "warnbg": "default", "chip": "yellow", "chipink": "black", "onfill": "black",
}  # fmt: skip
"""16 colours: bright black is unreadable in many terminals, so grey is the default foreground."""

TEXT_TOKENS: Final = (
    "text", "muted", "faint", "accent", "running", "attention", "error", "schedule",
)  # fmt: skip
GROUNDS: Final = ("bg", "bar", "panel", "field", "sel", "selblur")
CONTRAST: Final = 4.5

_VARIABLES: Final = (
    "muted", "faint", "field", "sel", "selblur", "line", "addbg", "delbg", "warnbg", "chip",
    "chipink", "onfill", "bar",
)  # fmt: skip


def _theme(name: str, tokens: Mapping[str, str], *, dark: bool) -> Theme:
    own = {f"av-{token}": tokens[token] for token in _VARIABLES}
    own |= {
        "block-cursor-background": tokens["accent"],
        "block-cursor-foreground": tokens["onfill"],
        "input-cursor-background": tokens["accent"],
        "input-cursor-foreground": tokens["onfill"],
        "input-selection-background": tokens["sel"],
        "scrollbar": tokens["line"],
        "scrollbar-background": tokens["bg"],
    }
    return Theme(
        name=name,
        primary=tokens["accent"],
        accent=tokens["accent"],
        secondary=tokens["schedule"],
        success=tokens["running"],
        warning=tokens["attention"],
        error=tokens["error"],
        foreground=tokens["text"],
        background=tokens["bg"],
        surface=tokens["bar"],
        panel=tokens["panel"],
        dark=dark,
        variables=own,
    )


OURS: Final = (
    _theme("agents-view-dark", DARK, dark=True),
    _theme("agents-view-light", LIGHT, dark=False),
)


def tokens_of(theme: Theme) -> dict[str, str]:
    """The tokens of any theme, as hex colours (or ANSI names)."""
    if theme.name == "agents-view-dark":
        return dict(DARK)
    if theme.name == "agents-view-light":
        return dict(LIGHT)
    if theme.ansi:
        return dict(ANSI)
    return _derived(theme)


def _derived(theme: Theme) -> dict[str, str]:
    base = LIGHT if not theme.dark else DARK
    background = Color.parse(theme.background or base["bg"])
    foreground = Color.parse(theme.foreground or base["text"])
    primary = Color.parse(theme.primary)
    tokens = {
        "text": foreground,
        "muted": foreground.blend(background, 0.25),
        "faint": foreground.blend(background, 0.38),
        "accent": primary,
        "running": Color.parse(theme.success or base["running"]),
        "attention": Color.parse(theme.warning or base["attention"]),
        "error": Color.parse(theme.error or base["error"]),
        "schedule": Color.parse(theme.secondary or base["schedule"]),
        "bg": background,
        "bar": Color.parse(theme.surface or background.hex),
        "panel": Color.parse(theme.panel or background.hex),
        "field": background.blend(foreground, 0.12),
        "sel": background.blend(primary, 0.18),
        "selblur": background.blend(foreground, 0.08),
        "line": background.blend(foreground, 0.25),
        "chip": Color.parse(theme.warning or base["chip"]),
    }
    tokens |= {
        "addbg": background.blend(tokens["running"], 0.15),
        "delbg": background.blend(tokens["error"], 0.15),
        "warnbg": background.blend(tokens["attention"], 0.15),
    }
    grounds = [tokens[ground] for ground in GROUNDS]
    for token in TEXT_TOKENS:
        tokens[token] = lifted(tokens[token], grounds, dark=theme.dark)
    dark_ink, light_ink = Color.parse("#10141b"), Color.parse("#ffffff")
    tokens["chipink"] = _readable(tokens["chip"], dark_ink, light_ink)
    tokens["onfill"] = _readable(tokens["accent"], dark_ink, light_ink)
    return {token: color.hex6.lower() for token, color in tokens.items()}


def _readable(ground: Color, one: Color, other: Color) -> Color:
    return one if contrast(one, ground) >= contrast(other, ground) else other


def lifted(color: Color, grounds: list[Color], *, dark: bool) -> Color:
    """The colour, moved in steps of 5 % to white (or black) until it is readable everywhere."""
    target = Color(255, 255, 255) if dark else Color(0, 0, 0)
    for step in range(21):
        moved = color.blend(target, step * 0.05)
        if all(contrast(moved, ground) >= CONTRAST for ground in grounds):
            return moved
    return target


def contrast(one: Color, other: Color) -> float:
    """Contrast ratio of WCAG 2, from 1 to 21."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(color: Color) -> float:
    def channel(value: int) -> float:
        part = value / 255
        return part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4

    return 0.2126 * channel(color.r) + 0.7152 * channel(color.g) + 0.0722 * channel(color.b)


class Palette:
    """Inks as rich styles for one theme; cached, since a screen has few of them."""

    def __init__(self, theme: Theme, *, mono: bool = False) -> None:
        self.tokens = tokens_of(theme)
        self.mono = mono
        self.reverse_selection = mono or theme.ansi
        self._styles: dict[tuple[Ink, str], Style] = {}

    def style(self, ink: Ink, ground: str = "bg") -> Style:
        """The style of an ink on a ground (a token), unless the ink has its own."""
        key = (ink, ground)
        style = self._styles.get(key)
        if style is None:
            style = self._styles[key] = self._make(ink, ink.bg or ground)
        return style

    def _make(self, ink: Ink, ground: str) -> Style:
        reverse = ground in ("sel", "selblur") and self.reverse_selection
        # reversed, every grey would become a ground of its own: one colour for the whole line
        token = "text" if reverse else ink.fg
        return Style(
            color=RichColor.parse(self.tokens.get(token, self.tokens["text"])),
            bgcolor=RichColor.parse(self.tokens.get(ground, self.tokens["bg"])),
            bold=ink.bold or None,
            italic=ink.italic or None,
            underline=ink.underline or None,
            reverse=reverse or None,
        )

    def ink_alone(self, ink: Ink) -> Style:
        """The style without a ground, for text on whatever a widget's own ground is."""
        style = self.style(ink)
        return Style(color=style.color, bold=style.bold, italic=style.italic)
