"""Identifiers that sort by the time of their making (UUIDv7, RFC 9562), in hex."""

from __future__ import annotations

import os
import time


def new_id(now_ms: int | None = None) -> str:
    """A UUIDv7 in 32 hex digits; `now_ms` for tests and fake clocks."""
    stamp = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    tail = int.from_bytes(os.urandom(10), "big")
    value = (stamp & (1 << 48) - 1) << 80 | 0x7 << 76 | (tail >> 68 & 0xFFF) << 64
    return f"{value | 0b10 << 62 | tail & (1 << 62) - 1:032x}"


def short_id(identifier: str) -> str:
    """The end of an id: the beginning of a UUIDv7 is a time, which many share."""
    return identifier[-8:]
