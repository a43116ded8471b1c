"""Talk to the agents-view daemon from anywhere: dashboard, command line, or a program of yours.

No Textual, no SQLite; imports in well under 80 ms.
"""

from __future__ import annotations

from daemon_client.client import DaemonClient, connect
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.roster import RosterMirror, RosterRow

__all__ = ["DaemonClient", "DaemonError", "ErrorCode", "RosterMirror", "RosterRow", "connect"]
