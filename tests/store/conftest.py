"""A migrated connection, and a whole `Database`, each in a directory of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agents_view.daemon.store.database import Database, connect
from agents_view.daemon.store.migrations import migrate


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = connect(tmp_path / "state.db")
    migrate(connection, may_migrate=True)
    yield connection
    connection.close()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(tmp_path / "state.db")
    await database.open(may_migrate=True)
    yield database
    await database.close()
