"""Where a store may be: WAL needs memory and locks that network file systems only promise."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from agents_view.daemon.store.errors import StoreError

_NETWORK: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs",
        "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb", "smb2", "smb3", "smbfs", "virtiofs",
    }
)  # fmt: skip
_NETWORK_HELPERS: Final = frozenset(
    {
        "beegfs", "ceph", "cephfs", "davfs", "davfs2", "glusterfs", "grpcfuse", "rclone", "s3fs",
        "smbnetfs", "sshfs", "vmhgfs-fuse",
    }
)  # fmt: skip
"""The part behind `fuse.`"""
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


def file_system_of(directory: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """The kind of file system a directory is on, `ext4` or so; "" where nothing tells (macOS).

    `AGENTS_VIEW_TEST_FILESYSTEM` answers instead, for tests.
    """
    if pretended := os.environ.get("AGENTS_VIEW_TEST_FILESYSTEM"):
        return pretended
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    target = directory.resolve()
    best, kind = -1, ""
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(_ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[1]))
        # of two mounts on one point the later one is what we see
        if len(point.parts) >= best and target.is_relative_to(point):
            best, kind = len(point.parts), fields[2]
    return kind


def refuse_network(directory: Path) -> None:
    """Raises `StoreError` with the reason if the directory is on a network file system."""
    kind = file_system_of(directory).lower()
    helper = kind.removeprefix("fuse.") if kind.startswith("fuse.") else ""
    if kind in _NETWORK or helper in _NETWORK_HELPERS:
        raise StoreError(
            f"{directory} is on a network file system ({kind}), which cannot lock a database"
            " safely: set AGENTS_VIEW_HOME to a directory on a local disk"
        )
