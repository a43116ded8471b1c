"""What can be wrong with a store, in sentences for people."""

from __future__ import annotations


class StoreError(Exception):
    """The store cannot be used: what, where and what to do."""


class StaleEpoch(StoreError):
    """A worker wrote with an epoch that is not the tree's any more (S3): it must end itself."""


class StoreBusy(StoreError):
    """Another process holds a lock we need; nothing was changed, trying again may help."""


class StoreDamaged(StoreError):
    """The database file is not what SQLite wrote: see `integrity.set_aside`."""


class StoreReplaced(StoreError):
    """The database file was moved away or replaced under us: close and open again."""


class NotRecording(StoreError):
    """A write failed for the disk's sake and left nothing behind; reads go on.

    `why` is the short form for a banner: "disk full", "the disk is read-only", "disk error".
    """

    def __init__(self, why: str, message: str) -> None:
        super().__init__(message)
        self.why = why


class StoreFull(NotRecording):
    """There is no room for the write."""

    def __init__(self, message: str) -> None:
        super().__init__("disk full", message)
