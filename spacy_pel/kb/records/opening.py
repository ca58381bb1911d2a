"""How the SQLite file of a KB is opened, wherever it comes from: what lies in it or beside it is only ever read as
records.

To read, the file is opened read-only. It is not opened as `immutable`: readers have to see what another process
changes. A journal that a killed writer left has to be rolled back, and a journal may name another file, which SQLite
then deletes. spacy-pel writes no such journal, so it is looked at first. The tables must be ours, and nothing else be
there: no trigger, view or virtual table.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any

from ...errors import PelError
from ..damage import damage, damage_named
from . import schema
from .remedy import LOCKED, read_errors, remedy
from .schema import pragma

LOCK_SECONDS = 10.0
COMMIT_SECONDS = 600.0  # more than `kb verify` reads a large KB for
MAGIC = bytes.fromhex("d9d505f920a163d7")  # begins a journal, and ends one that names another file
BESIDE = ("-journal", "-wal", "-shm")  # what SQLite may keep beside a file


def connect(path: Path, *, writable: bool = False) -> sqlite3.Connection:
    """A connection to the SQLite file of a KB.

    Args:
        path: The file.
        writable: To change it, not only to read.

    Raises:
        PelError: The file is missing, truncated, of another format or no entity file of a KB, or there is something in
            it or beside it that spacy-pel has not written.
    """
    check_there(path)
    if writable and path.is_symlink():
        raise PelError(f"{path}: is a link to {path.resolve()}; copy the KB (kb.copy_to) and change the copy.")
    with read_errors(path):
        roll_back(path)
        connection = _opened(path, "rw" if writable else "ro")
        try:
            _check(path, connection)
        except BaseException:
            connection.close()
            raise
        return connection


def check_there(path: Path) -> None:
    """Check that there is a file at `path`, that of a KB.

    Raises:
        PelError: There is none.
    """
    if not path.is_file():
        raise PelError(f"{path}: the file is missing; {remedy(path)}")


def place(path: Path) -> tuple[int, int] | None:
    """What tells the file that lies at `path` now, be `path` a link, from one that takes its place; None: there is
    none."""
    try:
        found = path.stat()
    except OSError:  # `connect` says so
        return None
    return found.st_dev, found.st_ino


def roll_back(path: Path) -> bool:
    """Roll back what a killed writer has left of a change. A living one is let be.

    Args:
        path: The SQLite file.

    Returns:
        Whether there was a journal.

    Raises:
        PelError: It is not a journal of ours.
    """
    real = os.path.realpath(path)
    for suffix in BESIDE:
        _check_beside(f"{real}{suffix}", suffix)
    if not os.path.exists(f"{real}-journal"):
        return False
    with closing(_opened(path, "rw")) as connection:
        pragma(connection, "schema_version")  # the first reading rolls back
    return True


def commit(connection: sqlite3.Connection, begun: float) -> None:
    """Commit a change once those who are reading have done so. Nobody can begin to read meanwhile, so it waits as long
    as the change has taken, at most `COMMIT_SECONDS`.

    Args:
        connection: In a transaction. It waits `LOCK_SECONDS` at a time, so that Ctrl-C is heard.
        begun: When the change began, by the monotonic clock.
    """
    now = monotonic()
    end = now + min(now - begun, COMMIT_SECONDS)
    while connection.in_transaction:
        try:
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if LOCKED not in str(error) or monotonic() > end:
                raise


def read_meta(path: Path, connection: sqlite3.Connection) -> dict[str, Any]:
    """The `meta` of the file at `path`.

    Raises:
        PelError: It makes no sense.
    """
    with damage_named(path):
        meta = schema.read_meta(connection)
        if meta.get("format_version") in schema.READABLE:
            schema.check_meta(meta)
        return meta


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=LOCK_SECONDS,
        check_same_thread=False,  # a KB is closed from one thread for all of them
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def _check_beside(name: str, suffix: str) -> None:
    """Raise unless the file is one that SQLite may be let near."""
    try:
        kind = os.lstat(name).st_mode
        if suffix != "-journal" or not stat.S_ISREG(kind):
            raise PelError(f"{name}: no KB has such a file; remove it if you trust the KB otherwise.")
        with open(name, "rb") as journal:
            size = journal.seek(0, os.SEEK_END)
            journal.seek(max(size - len(MAGIC), 0))
            end = journal.read()
    except FileNotFoundError:  # a living writer has just finished
        return
    if size > len(MAGIC) and end == MAGIC:
        raise PelError(
            f"{name}: this journal names another file, which SQLite would delete, and is not of spacy-pel; remove it "
            f"if you trust the KB otherwise."
        )


def _check(path: Path, connection: sqlite3.Connection) -> None:
    """Raise unless `connection` is to a whole file of a format that can be read, with its tables and no others."""
    if pragma(connection, "application_id") != schema.APPLICATION_ID:
        raise PelError(f"{path}: this is not the entity file of a KB; {remedy(path)}")
    if (mode := pragma(connection, "journal_mode")) != "delete":
        raise PelError(f'{path}: somebody has set its journal mode to "{mode}"; {remedy(path)}')
    size = pragma(connection, "page_count") * pragma(connection, "page_size")
    if path.stat().st_size < size:  # asked for second: another process may be adding pages
        raise PelError(f"{path}: the file is truncated; {remedy(path)}")
    connection.execute("BEGIN")
    found = schema.objects(connection)
    if schema.META not in found:
        raise PelError(damage(path, "it has no table of its meta"))
    version = read_meta(path, connection).get("format_version")
    connection.execute("COMMIT")
    if version not in schema.READABLE:
        raise PelError(
            f"{path}: format version {version}, this spacy-pel reads {schema.FORMAT_VERSION}; {remedy(path)}"
        )
    if stranger := schema.strange(found, version):
        raise PelError(f"{path}: {stranger}; do not use this KB unless you know where that comes from: {remedy(path)}")
