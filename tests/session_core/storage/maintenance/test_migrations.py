"""How an older store file becomes a present one: in one step or not at all."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from session_core.errors import StoreUnusable
from session_core.storage.maintenance.table_check import expected_schema, schema_of
from session_core.storage.schema import APPLICATION_ID, VERSION, bring_up_to_date, version_of


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        yield connection


def add_column(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE session ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'")


def paint(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE session SET colour = 'blue'")


def fail(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE session SET nonsense = 1")


def old_store(db: sqlite3.Connection) -> list[str]:
    bring_up_to_date(db)
    db.execute("INSERT INTO session (session_id) VALUES ('ses_1')")
    return list(db.iterdump())


def test_an_empty_file_gets_the_tables(db: sqlite3.Connection) -> None:
    """A new file has the tables, the version and the mark of this program, and a second time changes nothing."""
    bring_up_to_date(db)
    bring_up_to_date(db)

    assert version_of(db) == VERSION
    assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert schema_of(db) == expected_schema()


def test_older_tables_are_migrated_step_by_step(db: sqlite3.Connection) -> None:
    """A file two versions behind goes through both migrations, in order, and keeps its rows."""
    old_store(db)

    bring_up_to_date(db, version=VERSION + 2, migrations={VERSION: add_column, VERSION + 1: paint})

    assert version_of(db) == VERSION + 2
    assert db.execute("SELECT session_id, colour FROM session").fetchall() == [("ses_1", "blue")]
    assert not db.in_transaction


@pytest.mark.parametrize("migrations", [{VERSION: add_column, VERSION + 1: fail}, {VERSION: add_column}])
def test_a_migration_that_fails_leaves_the_old_file(db: sqlite3.Connection, migrations: dict[int, object]) -> None:
    """If any step fails or is unknown, the file is as it was, the steps before it included."""
    before = old_store(db)

    with pytest.raises((StoreUnusable, KeyError)):
        bring_up_to_date(db, version=VERSION + 2, migrations=migrations)  # type: ignore[arg-type]

    assert list(db.iterdump()) == before
    assert version_of(db) == VERSION
    assert not db.in_transaction


def test_a_newer_file_is_refused(db: sqlite3.Connection) -> None:
    """A file of a newer program is not touched, and the error says what to do."""
    before = old_store(db)
    db.execute(f"PRAGMA user_version = {VERSION + 1}")

    with pytest.raises(StoreUnusable, match="newer session-core; update this one"):
        bring_up_to_date(db)

    assert list(db.iterdump()) == before


@pytest.mark.parametrize("mark", [0, 1234])
def test_a_database_of_another_program_is_refused(db: sqlite3.Connection, mark: int) -> None:
    """A database with tables that are not ours gets none of ours."""
    db.execute("CREATE TABLE somebody (elses)")
    db.execute(f"PRAGMA application_id = {mark}")

    with pytest.raises(StoreUnusable, match="another program"):
        bring_up_to_date(db)

    assert [row[1] for row in schema_of(db)] == ["somebody"]
