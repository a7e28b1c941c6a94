"""The cache of replies: safe over processes and kills, refuses what isn't one."""

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tilewright.configs.errors import InputError
from tilewright.data_gen.llm.cache import ReplyCache, StoredBatch
from tilewright.data_gen.llm.request import Reply, Usage

WRITER = """
import sys, time
from pathlib import Path
from tilewright.data_gen.llm.cache import ReplyCache
from tilewright.data_gen.llm.request import Reply
with ReplyCache(Path(sys.argv[1])) as cache:
    for number in range(int(sys.argv[3])):
        cache.put(f"{number}", Reply(sys.argv[2], "stop"))
        cache.put(f"{sys.argv[2]}{number}", Reply("x", "stop"))
        print(number, flush=True)
"""


def test_the_first_reply_of_a_digest_stays(tmp_path: Path) -> None:
    reply = Reply("ü\ud800", "stop", Usage(1, 2, 3, 4), None)
    with ReplyCache(tmp_path / "deep/c.sqlite") as cache:
        assert cache.get("a") is None and cache.is_empty()
        cache.put("a", reply)
        cache.put("a", Reply("another", "stop"))
    with ReplyCache(tmp_path / "deep/c.sqlite") as cache:
        assert cache.get("a") == Reply("ü\ud800", "stop", Usage(1, 2, 3, 4), None, cached=True)
        assert len(cache) == 1 and not cache.is_empty()


def test_two_processes_write_at_once_and_a_third_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen([*command, "k", "100000"], stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        others = [subprocess.Popen([*command, name, "300"], stdout=subprocess.DEVNULL) for name in "ab"]
        lines = [victim.stdout.readline() for _ in range(200)]
        victim.kill()
    assert [process.wait() for process in others] == [0, 0]
    with ReplyCache(path) as cache:
        assert all(cache.get(f"{name}{number}") for name in "ab" for number in range(300))
        assert all(cache.get(f"k{int(line)}") for line in lines)
        assert {cache.get(str(number)).text for number in range(300)} <= {"a", "b", "k"}  # type: ignore[union-attr]


@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE"])
def test_opening_waits_for_who_makes_the_file(lock: str, tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    maker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    maker.execute(f"BEGIN {lock}")
    timer = threading.Timer(0.3, maker.execute, ("COMMIT",))
    timer.start()
    with ReplyCache(path) as cache:
        cache.put("a", Reply("text", "stop"))
        assert not timer.is_alive() and len(cache) == 1
    maker.close()


def test_a_foreign_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "other.sqlite"
    text.write_text("not a database, but long enough to be looked at " * 20)
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE mine (x)")
    for path in (text, other):
        before = path.read_bytes()
        with pytest.raises(InputError, match=path.name):
            ReplyCache(path)
        assert path.read_bytes()[100:] == before[100:]


def test_reading_makes_no_file(tmp_path: Path) -> None:
    with ReplyCache(tmp_path / "c.sqlite", reading=True) as cache:
        assert cache.get("a") is None
    assert list(tmp_path.iterdir()) == []


def test_reading_changes_no_byte_and_needs_no_right_to_write(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with ReplyCache(path) as cache:
        cache.put("a", Reply("text", "stop"))
    before = path.read_bytes()
    path.chmod(0o444)
    with ReplyCache(path, reading=True) as cache:
        found = cache.get("a")
        assert found is not None and found.text == "text"
    assert path.read_bytes() == before


def test_batches_under_way_are_kept_by_server(tmp_path: Path) -> None:
    with ReplyCache(tmp_path / "c.sqlite") as cache:
        cache.put_batch("s", StoredBatch("t", None, ("a", "b")))
        cache.put_batch("other", StoredBatch("u", "id", ("c",)))
        cache.put_batch("s", StoredBatch("t", "id", ("a", "b")))
        assert cache.batches("s") == [StoredBatch("t", "id", ("a", "b"))] and not cache.is_empty()
        cache.forget_batch("t")
        assert cache.batches("s") == [] and len(cache.batches("other")) == 1
