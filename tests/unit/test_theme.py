"""Every text can be read on every ground it may stand on, in every theme (look.md 1)."""

from __future__ import annotations

import pytest
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from agents_view.board.ink import Ink
from agents_view.tui.theme import (
    CONTRAST,
    DARK,
    GROUNDS,
    LIGHT,
    OURS,
    TEXT_TOKENS,
    Palette,
    contrast,
    tokens_of,
)

THEMES: tuple[Theme, ...] = (*OURS, *BUILTIN_THEMES.values())
COLOURED = [theme for theme in THEMES if not theme.ansi]
TINTED = ("addbg", "delbg", "warnbg")


def test_contrast_is_that_of_wcag() -> None:
    assert contrast(Color.parse("#000000"), Color.parse("#ffffff")) == pytest.approx(21)
    assert contrast(Color.parse("#777777"), Color.parse("#ffffff")) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", COLOURED, ids=lambda theme: theme.name)
def test_every_text_token_can_be_read(theme: Theme) -> None:
    tokens = tokens_of(theme)
    for token in TEXT_TOKENS:
        for ground in GROUNDS:
            ratio = contrast(Color.parse(tokens[token]), Color.parse(tokens[ground]))
            assert ratio >= CONTRAST - 0.02, f"{theme.name}: {token} on {ground}"
    for ink, ground in (("chipink", "chip"), ("onfill", "accent")):
        ratio = contrast(Color.parse(tokens[ink]), Color.parse(tokens[ground]))
        assert ratio >= CONTRAST - 0.02, f"{theme.name}: {ink} on {ground}"


@pytest.mark.parametrize("tokens", [DARK, LIGHT], ids=["dark", "light"])
def test_our_own_can_be_read_on_tinted_grounds_too(tokens: dict[str, str]) -> None:
    for token in TEXT_TOKENS:
        for ground in TINTED:
            assert contrast(Color.parse(tokens[token]), Color.parse(tokens[ground])) >= CONTRAST


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_every_theme_has_every_token(theme: Theme) -> None:
    assert set(tokens_of(theme)) == set(DARK)
    palette = Palette(theme)
    for token in DARK:
        palette.style(Ink(token))


@pytest.mark.parametrize("theme", [t for t in THEMES if t.ansi], ids=lambda theme: theme.name)
def test_sixteen_colours_select_by_reverse_and_have_no_grey(theme: Theme) -> None:
    palette = Palette(theme)
    assert palette.style(Ink(), "sel").reverse
    assert palette.style(Ink("faint")).color == palette.style(Ink("text")).color


def test_the_attribute_dim_is_never_used() -> None:
    palette = Palette(OURS[0], mono=True)
    for token in DARK:
        for ground in ("bg", *GROUNDS):
            assert not palette.style(Ink(token, bold=True), ground).dim
