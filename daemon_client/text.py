"""Make foreign text harmless: names, titles, agent output, causes of errors (spec 03.8, 07.3)."""

from __future__ import annotations

import re
from typing import Final

_SEQUENCES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x9b[0-?]*[ -/]*[@-~]"  # CSI, 8 bit
    # OSC DCS SOS PM APC, up to their terminator
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"  # two-byte escapes
)
"""Whole escape sequences. An unterminated one loses only its introducer, below."""

_MARK: Final = "\N{REPLACEMENT CHARACTER}"


def _build_table() -> dict[int, str]:
    table = dict.fromkeys((*range(32), *range(127, 160)), _MARK)
    table |= {ord("\t"): " ", ord("\n"): " ", ord("\r"): " ", 0x0B: " ", 0x0C: " "}
    invisible = (
        0x061C, 0x180E, 0x200B, 0x200C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F),
        *range(0x2060, 0x2070), 0xFEFF, *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080),
    )  # fmt: skip
    table |= dict.fromkeys(invisible, "")
    table |= dict.fromkeys(range(0xD800, 0xE000), _MARK)  # lone surrogates cannot be encoded
    return table


_ONE_LINE: Final = _build_table()
_LINES: Final = {code: mark for code, mark in _ONE_LINE.items() if code != 0x0A} | {0x09: "    "}


def clean(text: str, limit: int = 4096) -> str:
    """One line that is safe to print: no control or escape bytes, no bidi or zero-width formatting.

    Whole escape sequences vanish, stray control characters become a visible mark, line breaks and
    tabs become a space. At most `limit` characters are looked at; a longer text ends in `…`. ZWJ
    and variation selectors stay, since emoji need them.
    """
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    return _SEQUENCES.sub("", text).translate(_ONE_LINE)


def clean_lines(text: str, limit: int = 1 << 20) -> str:
    """The same for a block of text: line breaks stay as LF, a tab becomes four cells."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    text = _SEQUENCES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return text.translate(_LINES)


_SECRETS: Final = re.compile(
    r"\b(?:sk|pk|rk|ghp|gho|ghs|ghu|glpat|xox[abpr]|AKIA|AIza|ya29)[-_A-Za-z0-9.]{12,}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"
    r"|(?i:(?<=bearer )|(?<=api[_-]key=)|(?<=apikey=)|(?<=token=)|(?<=password=)|(?<=secret=))"
    r"[^\s&'\"]{6,}"
)


def cause_text(text: str) -> str:
    """The one form in which a cause is stored or shown (spec 07.5): clean, bounded, no keys."""
    return _SECRETS.sub("[redacted]", clean(text, 2048))
