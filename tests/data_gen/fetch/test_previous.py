"""Conditional requests: what an earlier mirror holds isn't sent again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.fetch.mirror import Mirror, MirrorRecord
from tilewright.data_gen.fetch_pages import STAGE, Config

Make = Callable[..., Config]
Reasons = Callable[[Path], dict[str, str]]
Records = Callable[[Path], dict[str, MirrorRecord]]


def test_unchanged_pages_are_not_sent_again(
    server: Any, reply: Any, fetch_config: Make, tmp_path: Path, records: Records
) -> None:
    def unless_known(body: bytes, header: str, value: str, kind: str) -> Callable[[Any], Any]:
        sent = {"if-none-match": "ETag", "if-modified-since": "Last-Modified"}[header]

        def answer(asked: Any) -> Any:
            headers = {"Content-Type": kind, sent: value}
            return (
                reply(status=304, headers=headers)
                if asked.headers.get(header) == value
                else reply(body, headers=headers)
            )

        return answer

    date = "Tue, 01 Oct 2024 10:00:00 GMT"
    server.routes = {
        "/same": unless_known(b"<img src=/p.png>same", "if-none-match", 'W/"1"', "text/html"),
        "/dated": unless_known(b"dated", "if-modified-since", date, "text/html"),
        "/p.png": unless_known(b"png", "if-none-match", '"p"', "image/png"),
        "/moved": reply(status=302, headers={"Location": "/same"}),
        "/changed": reply(b"old", headers={"Content-Type": "text/html", "ETag": '"old"'}),
        "/lost": unless_known(b"lost", "if-none-match", '"l"', "text/html"),
        "/rude": [reply(b"rude", headers={"Content-Type": "text/html"}), reply(status=304)],
    }
    urls = [server.url(path) for path in server.routes if path != "/p.png"]
    old = fetch_config(urls, name="old")
    run_stage(STAGE, old)
    server.routes["/changed"] = reply(b"new", headers={"Content-Type": "text/html", "ETag": '"new"'})
    before = records(old.out)
    lost = old.out / "objects" / before[server.url("/lost")].sha256[:2] / before[server.url("/lost")].sha256
    (old.out / "manifest.json").unlink()  # a mirror whose bytes were damaged under way, not a finished stage's
    lost.write_bytes(b"damaged")
    server.log.clear()
    new = fetch_config(urls, name="new", previous=old.out)
    counts = run_stage(STAGE, new)["counts"]
    assert (counts["pages"], counts["not_modified"], counts["failed_status_304"]) == (5, 4, 1)
    after = records(new.out)
    bodies = {url.removeprefix(server.url("")): Mirror(new.out).body(record) for url, record in after.items()}
    assert bodies["/changed"] == b"new" and bodies["/lost"] == b"lost" and bodies["/p.png"] == b"png"
    assert bodies["/same"] == bodies["/moved"] == b"<img src=/p.png>same" and bodies["/dated"] == b"dated"
    same = server.url("/same")
    assert after[same].not_modified and after[same].fetched == before[same].fetched
    assert after[same].checked >= before[same].checked and after[same].etag == 'W/"1"'
    lost_request = next(asked for asked in server.log if asked.path == "/lost")
    moved_request = next(asked for asked in server.log if asked.path == "/moved")
    assert "if-none-match" not in lost_request.headers | moved_request.headers


def test_a_previous_that_is_no_mirror(server: Any, fetch_config: Make, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"wanted a mirror as fetch_pages writes it"):
        run_stage(STAGE, fetch_config([server.url("/a")], previous=tmp_path / "empty"))
