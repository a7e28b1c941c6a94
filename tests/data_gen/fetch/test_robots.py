"""robots.txt: of pages, of resources, of hosts that pages moved to; and how fast."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.stage import run_stage
from tilewright.data_gen.fetch.mirror import MirrorRecord
from tilewright.data_gen.fetch_pages import STAGE, Config

Make = Callable[..., Config]
Reasons = Callable[[Path], dict[str, str]]
Records = Callable[[Path], dict[str, MirrorRecord]]


def test_robots_of_pages_and_resources(
    server: Any, reply: Any, fetch_config: Make, site: Callable[..., list[str]]
) -> None:
    urls = site(2)
    server.routes["/robots.txt"] = reply(
        b"User-agent: *\nDisallow: /\n\nUser-agent: TestBot\nDisallow: /1\nDisallow: /*.png$\nAllow: /1.html?ok\n"
    )
    server.page("/1.html?ok", "x")
    config = fetch_config([*urls, server.url("/1.html?ok")])
    counts = run_stage(STAGE, config)["counts"]
    assert (counts["pages"], counts["failed_robots_disallowed"]) == (2, 1)
    assert counts["resources_failed_robots_disallowed"] == 2
    assert set(server.paths()) == {"/0.html", "/1.html?ok", "/s.css", "/fonts/f.woff2"}
    assert [asked.path for asked in server.log].count("/robots.txt") == 1 and server.log[0].path == "/robots.txt"


@pytest.mark.parametrize(
    ("status", "headers", "body", "reason"),
    [
        (403, {}, b"User-agent: *\nDisallow: /", None),
        (404, {}, b"", None),
        (200, {}, b"\xff\0<html>no rules", None),
        (200, {}, b"\xef\xbb\xbfUser-agent: *\nDisallow: /", "robots_disallowed"),
        (200, {}, b"#" * 600_000 + b"\nUser-agent: *\nDisallow: /", None),  # beyond what is read
        (302, {"Location": "/rules"}, b"", "robots_disallowed"),
        (302, {"Location": "/robots.txt"}, b"", "robots_unreachable"),
        (500, {}, b"", "robots_unreachable"),
        (429, {}, b"", "robots_unreachable"),
        (200, {}, b"User-agent: *\nCrawl-delay: 1e9", "crawl_delay_too_long"),
        (200, {}, b"User-agent: *\nRequest-rate: 1/" + b"9" * 400, "crawl_delay_too_long"),
    ],
)
def test_robots_txt_by_its_answer(
    server: Any,
    reply: Any,
    fetch_config: Make,
    status: int,
    headers: dict[str, str],
    body: bytes,
    reason: str | None,
    reasons: Reasons,
) -> None:
    server.page("/a", "x")
    server.routes["/robots.txt"] = reply(body, status=status, headers=headers)
    server.routes["/rules"] = reply(b"User-agent: testbot\nDisallow: /a")
    config = fetch_config([server.url("/a")])
    run_stage(STAGE, config)
    assert reasons(config.out) == ({server.url("/a"): reason} if reason else {})
    assert server.paths().count("/a") == (0 if reason else 1)


def test_robots_of_a_host_that_a_page_moved_to(server: Any, reply: Any, fetch_config: Make, reasons: Reasons) -> None:
    server.routes["/a"] = reply(status=302, headers={"Location": server.url("/b", "127.0.0.2")})
    server.page("/b", "x")
    rules = reply(b"User-agent: *\nDisallow: /b")
    server.routes["/robots.txt"] = lambda asked: rules if asked.host.startswith("127.0.0.2") else reply(status=404)
    config = fetch_config([server.url("/a"), server.url("/b")])
    run_stage(STAGE, config)
    assert reasons(config.out) == {server.url("/a"): "robots_disallowed"}


@pytest.mark.parametrize("rule", [b"Crawl-delay: 0.5", b"Request-rate: 2/1s"])
def test_crawl_delay_is_obeyed(server: Any, reply: Any, fetch_config: Make, rule: bytes) -> None:
    server.routes["/robots.txt"] = reply(b"User-agent: *\n" + rule)
    for path in ("/a", "/b", "/c"):
        server.page(path, "x")
    run_stage(STAGE, fetch_config([server.url(path) for path in ("/a", "/b", "/c")]))
    robots, *pages = server.log
    assert all(page.started - robots.started >= 0.5 * number for number, page in enumerate(pages))
