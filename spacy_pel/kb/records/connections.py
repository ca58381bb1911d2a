"""Connections to read an SQLite file through, which stay usable whatever interrupts a reading."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from .schema import pragma

Answer = TypeVar("Answer")


@dataclass
class _Reader:
    connection: sqlite3.Connection
    version: int | None = None  # SQLite's number of the last change by others that was noticed


class Connections:
    """One connection for every process and thread; one that a fork inherited is never touched.

    A connection is kept only while nothing is under way in it. What is raised within a reading, be it by Ctrl-C, closes
    it, and the next reading opens another.
    """

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], notice: Callable[[sqlite3.Connection], object]
    ) -> None:
        """No connection yet.

        Args:
            connect: Opens one.
            notice: Called at the beginning of a reading if the file has changed since the last one.
        """
        self._connect, self._notice = connect, notice
        self._idle: dict[tuple[int, int], _Reader] = {}

    def read(self, ask: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """What `ask` reads, all of it at one moment of the file."""
        key = os.getpid(), threading.get_ident()
        reader = self._idle.pop(key, None) or _Reader(self._connect())
        try:  # a context manager could be interrupted between its parts
            reader.connection.execute("BEGIN")
            if (version := pragma(reader.connection, "data_version")) != reader.version:
                self._notice(reader.connection)
                reader.version = version
            answer = ask(reader.connection)
            reader.connection.execute("COMMIT")
        except BaseException:
            reader.connection.close()
            raise
        self._idle[key] = reader
        return answer

    def close(self) -> None:
        """Close the connections of this process."""
        for key in [key for key in self._idle if key[0] == os.getpid()]:
            self._idle.pop(key).connection.close()
