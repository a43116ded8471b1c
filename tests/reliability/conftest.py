"""The same homes and clients as the daemon tests."""

from __future__ import annotations

from tests.daemon.conftest import client, home

__all__ = ["client", "home"]
