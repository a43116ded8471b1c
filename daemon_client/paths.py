"""Where everything lives (spec 09): one value, computed once from the environment.

`AGENTS_VIEW_HOME=DIR` puts all of it under DIR, for tests, trials and a second instance.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from daemon_client.errors import DaemonError, ErrorCode

_MAX_SOCKET_PATH: Final = 100
"""Bytes. The kernel takes 107 on Linux and 103 on macOS."""


class Paths(msgspec.Struct, kw_only=True, frozen=True):
    """All places of one instance."""

    config_file: Path
    state_dir: Path
    socket: Path

    @property
    def database(self) -> Path:
        return self.state_dir / "state.db"

    @property
    def transcripts(self) -> Path:
        return self.state_dir / "transcripts"

    @property
    def logs(self) -> Path:
        return self.state_dir / "logs"

    @property
    def run_dir(self) -> Path:
        return self.state_dir / "run"

    @property
    def daemon_lock(self) -> Path:
        return self.run_dir / "daemon.lock"

    @property
    def tree_locks(self) -> Path:
        return self.run_dir / "trees"

    @property
    def ui_file(self) -> Path:
        return self.state_dir / "ui.toml"


def paths_for(home: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Paths:
    """The places of the instance at `home`, or of the one the environment names."""
    root = str(home) if home is not None else environ.get("AGENTS_VIEW_HOME", "")
    config = environ.get("AGENTS_VIEW_CONFIG", "")
    if root:
        base = Path(root).expanduser().absolute()
        state, wanted = base / "state", base / "run" / "daemon.sock"
        config_file = Path(config) if config else base / "config.toml"
    else:
        # platformdirs costs an import that the common case of a script need not pay twice
        import platformdirs

        state = Path(platformdirs.user_state_dir("agents-view", appauthor=False))
        runtime = environ.get("XDG_RUNTIME_DIR", "")
        usable = bool(runtime) and _is_private(Path(runtime))
        wanted = (Path(runtime) / "agents-view" if usable else state / "run") / "daemon.sock"
        user_config = Path(platformdirs.user_config_dir("agents-view", appauthor=False))
        config_file = Path(config) if config else user_config / "config.toml"
    if override := environ.get("AGENTS_VIEW_SOCKET", ""):
        wanted = Path(override)
    return Paths(config_file=config_file, state_dir=state, socket=_short(wanted, state))


def _is_private(directory: Path) -> bool:
    try:
        info = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid()


def _short(socket: Path, state: Path) -> Path:
    """A socket path the platform can bind; a long one moves to a private directory named by us."""
    if len(os.fsencode(socket)) <= _MAX_SOCKET_PATH:
        return socket
    # two slow imports for the rare long path
    import hashlib
    import tempfile

    digest = hashlib.sha256(os.fsencode(state)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"agents-view-{os.getuid()}" / f"{digest}.sock"


def make_private(directory: Path) -> None:
    """Create `directory` (0700) and refuse one that is not ours or is a link (spec 07.3).

    Raises `DaemonError(refused)` that names the directory and what is wrong with it.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = directory.lstat()
    if not stat.S_ISDIR(info.st_mode):
        raise DaemonError(ErrorCode.REFUSED, f"{directory} is not a directory")
    if info.st_uid != os.getuid():
        raise DaemonError(ErrorCode.REFUSED, f"{directory} belongs to uid {info.st_uid}, not to us")
    if stat.S_IMODE(info.st_mode) & 0o077:
        directory.chmod(0o700)
