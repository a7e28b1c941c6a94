"""Replies by the digest of their call, in SQLite: each is stored as it arrives, so none is ever paid twice.

Several processes may use one file. Only well-formed completions come in. A batch that is under way is stored too, from
before it is sent, so that a killed run finds it again.
"""

import json
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tilewright.configs.errors import InputError
from tilewright.configs.stage import StageError
from tilewright.data_gen.llm.completion import from_row, to_row
from tilewright.data_gen.llm.request import Reply

_SCHEMA = 1
_BUSY_S, _RETRY_S = 60.0, 0.05
_TABLES = (
    "CREATE TABLE IF NOT EXISTS replies (digest TEXT PRIMARY KEY, reply TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS batches"
    " (token TEXT PRIMARY KEY, server TEXT NOT NULL, batch TEXT, digests TEXT NOT NULL) WITHOUT ROWID",
)


@dataclass(frozen=True)
class StoredBatch:
    """A batch under way: ``token`` is our mark in its metadata, ``batch`` the server's id (None: maybe not sent)."""

    token: str
    batch: str | None
    digests: tuple[str, ...]


class ReplyCache:
    """The cache in the file ``path``, made if it's missing (``reading``: then it's empty, and no file is made or
    changed).

    Raises InputError if it's something else.
    """

    def __init__(self, path: Path, *, reading: bool = False) -> None:
        self.path, self._reading = path, reading and path.exists()
        self._place = ":memory:" if reading and not path.exists() else str(path)
        if not reading:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._open_when_free()
        except sqlite3.DatabaseError as error:
            raise _unusable(path, error) from error

    def _open_when_free(self) -> None:
        """Open it; while another process makes the file, SQLite refuses some statements at once instead of waiting."""
        end = time.monotonic() + _BUSY_S
        while True:
            try:
                self._open()
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
            time.sleep(_RETRY_S)

    def _open(self) -> None:
        place = f"{self.path.absolute().as_uri()}?mode=ro" if self._reading else self._place
        self._db = sqlite3.connect(place, timeout=_BUSY_S, isolation_level=None, uri=self._reading)
        try:
            if not self._reading:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = NORMAL")  # a kill loses nothing, a power cut the last replies
            (found,) = self._db.execute("PRAGMA user_version").fetchone()
            (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'replies'").fetchone()
            others = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if found not in (0, _SCHEMA) or (found == 0 and others and not tables):
                raise InputError(
                    f"llm.cache: {self.path} is no cache of this version: move it away or name another file"
                )
            for statement in () if self._reading else (*_TABLES, f"PRAGMA user_version = {_SCHEMA}"):
                self._db.execute(statement)
        except BaseException:
            self._db.close()
            raise

    def get(self, digest: str) -> Reply | None:
        """The stored reply, marked as cached."""
        row = self._db.execute("SELECT reply FROM replies WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else from_row(row[0])

    def put(self, digest: str, reply: Reply) -> None:
        """Store a well-formed reply; the first one of a digest stays. StageError if the disk takes no more."""
        self._write("INSERT OR IGNORE INTO replies VALUES (?, ?)", (digest, to_row(reply)))

    def put_all(self, replies: dict[str, Reply]) -> None:
        """Store many at once."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for digest, reply in replies.items():
                self.put(digest, reply)
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._write("COMMIT", ())

    def __len__(self) -> int:
        count: int = self._db.execute("SELECT count(*) FROM replies").fetchone()[0]
        return count

    def batches(self, server: str) -> list[StoredBatch]:
        """The batches under way at ``server``, in order of token."""
        rows = self._db.execute("SELECT token, batch, digests FROM batches WHERE server = ? ORDER BY token", (server,))
        return [StoredBatch(token, batch, tuple(json.loads(digests))) for token, batch, digests in rows]

    def put_batch(self, server: str, batch: StoredBatch) -> None:
        """Store or replace a batch under way."""
        row = (batch.token, server, batch.batch, json.dumps(batch.digests))
        self._write("INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?)", row)

    def forget_batch(self, token: str) -> None:
        """A batch is done with."""
        self._write("DELETE FROM batches WHERE token = ?", (token,))

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        try:
            self._db.execute(statement, values)
        except sqlite3.DatabaseError as error:
            raise StageError(
                f"llm.cache: {self.path} can't be written ({error}): make room or name another file, then run the same"
                " command again; what is stored is kept"
            ) from error

    def is_empty(self) -> bool:
        """Whether it holds neither replies nor batches."""
        return not any(
            self._db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in ("replies", "batches")
        )

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _unusable(path: Path, error: sqlite3.DatabaseError) -> InputError:
    return InputError(f"llm.cache: {path} can't be used as a cache ({error}): move it away or name another file")
