"""What can be wrong with a store, in sentences for people."""

from __future__ import annotations


class StoreError(Exception):
    """The store cannot be used: what, where and what to do."""


class StaleEpoch(StoreError):
    """A worker wrote with an epoch that is not the tree's any more (S3): it must end itself."""
