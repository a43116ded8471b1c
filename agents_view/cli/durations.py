"""Durations and counts as people type them."""

from __future__ import annotations

import argparse
import re

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def seconds(text: str) -> float:
    """`90`, `90s`, `1.5m`, `2h` as seconds. Raises argparse's error for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)", text.strip(), re.ASCII)
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"not a duration: {text!r} (write 60s, 5m or 2h)")
    return float(match[1]) * _UNITS[match[2]]


def count(text: str) -> int:
    """A whole number, not negative. Raises argparse's error for anything else."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"not a number of lines or entries: {text!r}")
    return int(text)
