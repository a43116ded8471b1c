"""Foreign text for one-line places: clean, and as wide on every terminal as we think it is. Pure.

Terminals do not agree on the width of joined emoji, variation selectors and flags, and whatever
cuts a line in the middle of one (a dialog over the board does) moves the rest of it by a cell.
"""

from __future__ import annotations

import re
from typing import Final

from daemon_client.text import clean

_BASE: Final = (
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff]"
)
_CHANGED: Final = "[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]"
_EMOJI: Final = re.compile(f"({_BASE}){_CHANGED}*(?:\u200d{_BASE}{_CHANGED}*)*\u200d?")
_LEFT_OVER: Final = re.compile(f"{_CHANGED}|\u20e3")
_FLAG_LETTERS: Final = {0x1F1E6 + number: chr(ord("A") + number) for number in range(26)}


def steady(text: str, limit: int = 4096) -> str:
    """`clean`, with each emoji reduced to its first character and a flag to its two letters."""
    text = clean(text, limit)
    if text.isascii():
        return text
    return _LEFT_OVER.sub("", _EMOJI.sub(r"\1", text)).translate(_FLAG_LETTERS)
