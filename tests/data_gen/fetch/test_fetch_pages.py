"""fetch_pages against a real server: what lands in the mirror, what fails and by what name, what is asked how often."""

import dataclasses
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.load import load
from tilewright.configs.stage import StageError, run_stage
from tilewright.data_gen.fetch.mirror import Failure, Mirror, MirrorRecord
from tilewright.data_gen.fetch.settings import Limits, Politeness
from tilewright.data_gen.fetch_pages import STAGE, Config
from tilewright.data_gen.records import read_jsonl

Make = Callable[..., Config]
SHOWN = "<title>T</title><link rel=stylesheet href=/s.css><img src=/a.png><img src=/none.png><a href=/other>x</a>"
ROOT = Path(__file__).parents[3]


def records(mirror: Path) -> dict[str, MirrorRecord]:
    return {record.url: record for record in Mirror(mirror).records()}


def reasons(mirror: Path) -> dict[str, str]:
    return {failure.url: failure.reason for failure in read_jsonl(mirror / "failed.jsonl", Failure)}


def mirror_without_times(folder: Path) -> list[MirrorRecord]:
    return [dataclasses.replace(record, fetched="", checked="") for record in Mirror(folder).records()]


def site(server: Any, reply: Any, pages: int = 1) -> list[str]:
    """So many pages that show one stylesheet with a font, one picture, and one that isn't there."""
    css, png, font = ({"Content-Type": kind} for kind in ("text/css", "image/png", "font/woff2"))
    server.routes["/s.css"] = reply(b"@font-face { src: url(fonts/f.woff2) }", headers=css)
    server.routes["/fonts/f.woff2"] = reply(b"font", headers=font)
    server.routes["/a.png"] = reply(b"picture", headers=png)
    for number in range(pages):
        server.page(f"/{number}.html", SHOWN + f"<p>{number}</p>")
    return [server.url(f"/{number}.html") for number in range(pages)]


def test_pages_with_what_they_show(server: Any, reply: Any, fetch_config: Make) -> None:
    config = fetch_config(site(server, reply, pages=3)[::-1])
    manifest = run_stage(STAGE, config)
    expected = {"network": True, "pages": 3, "resources": 3, "failed": 0, "resources_failed": 1}
    assert manifest["counts"].items() >= expected.items()
    assert manifest["counts"]["resources_failed_status_404"] == 1
    assert Counter(server.paths()) == Counter(
        ["/0.html", "/1.html", "/2.html", "/s.css", "/fonts/f.woff2", "/a.png", "/none.png"]
    )
    found = records(config.out)
    assert [record.canonical_url for record in found.values()] == sorted(found)
    page = found[server.url("/1.html")]
    assert (page.kind, page.final_url, page.redirects, page.status) == ("page", page.url, (), 200)
    assert (page.media_type, page.charset, page.size_bytes) == ("text/html", "utf-8", len(SHOWN) + 8)
    assert page.resources == tuple(sorted(map(server.url, ("/s.css", "/a.png", "/none.png"))))
    assert Mirror(config.out).body(page) == f"{SHOWN}<p>1</p>".encode()
    assert found[server.url("/s.css")].resources == (server.url("/fonts/f.woff2"),)
    (failure,) = read_jsonl(config.out / "failed.jsonl", Failure)
    assert failure == Failure(server.url("/none.png"), "resource", "status_404", "the server answered 404")
    assert {len(list(config.out.glob("objects/*/*"))), len({record.sha256 for record in found.values()})} == {6}


def test_a_second_start_asks_nothing(server: Any, reply: Any, fetch_config: Make) -> None:
    config = fetch_config(site(server, reply))
    first, asked = run_stage(STAGE, config), len(server.log)
    assert run_stage(STAGE, config) == first and len(server.log) == asked


def test_duplicates_fragments_comments_and_what_is_no_url(server: Any, fetch_config: Make) -> None:
    server.page("/a", "<p>a")
    lines = ["# a comment", "", server.url("/a#part"), server.url("/%61"), f"  {server.url('/a').upper()[:4]}"]
    lines += ["ftp://x.example/", "example.com/page", "http://user:secret@x.example/", server.url("/a?q")]
    counts = run_stage(STAGE, fetch_config(lines))["counts"]
    assert sorted(server.paths()) == ["/a", "/a?q"]
    assert (counts["pages"], counts["duplicates"], counts["fragments_dropped"]) == (1, 1, 1)
    assert (counts["failed_not_a_web_address"], counts["failed_credentials_in_url"]) == (3, 1)
    assert counts["failed_status_404"] == 1


def test_passwords_are_in_no_output(server: Any, fetch_config: Make) -> None:
    server.page("/a", "<p>a")
    config = fetch_config(["http://user:hunter2@x.example/", server.url("/a")])
    run_stage(STAGE, config)
    assert not [path for path in config.out.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]


def test_every_failure_has_its_name(server: Any, reply: Any, fetch_config: Make) -> None:
    html = {"Content-Type": "text/html"}
    bomb = gzip.compress(b"\0" * 50_000_000)
    replies = {
        "/missing": ("status_404", reply(status=404)),
        "/teapot": ("status_418", reply(b"x", status=418, headers=html)),
        "/empty-answer": ("status_204", reply(status=204)),
        "/broken": ("status_500", reply(b"x", status=500)),
        "/busy": ("status_429", reply(status=429, headers={"Retry-After": "0"})),
        "/busy-for-long": ("status_503", reply(status=503, headers={"Retry-After": "86400"})),
        "/slow-head": ("timeout", reply(b"x", headers=html, wait_s=30)),
        "/slow-body": ("timeout", reply(b"x" * 1000, headers=html, pause_s=0.05)),
        "/endless": ("too_large", reply(b"x" * 65536, headers=html, endless=True)),
        "/announced": ("too_large", reply(b"x" * 1_000_001, headers=html)),
        "/bomb": ("too_large", reply(bomb, headers=html | {"Content-Encoding": "gzip"})),
        "/no-gzip": ("bad_encoding", reply(b"plain", headers=html | {"Content-Encoding": "gzip"})),
        "/half-gzip": (
            "bad_encoding",
            reply(gzip.compress(b"x" * 999)[:-9], headers=html | {"Content-Encoding": "gzip"}),
        ),
        "/brotli": ("bad_encoding", reply(b"x", headers=html | {"Content-Encoding": "br"})),
        "/loop": ("redirect_loop", reply(status=302, headers={"Location": "/loop"})),
        "/ping": ("redirect_loop", reply(status=302, headers={"Location": "/pong"})),
        "/pong": ("redirect_loop", reply(status=302, headers={"Location": "/ping"})),
        "/nowhere": ("redirect_loop", reply(status=302, headers={"Location": "file:///etc/passwd"})),
        "/far": ("too_many_redirects", lambda asked: reply(status=302, headers={"Location": asked.path + "r"})),
        "/no-location": ("status_301", reply(status=301)),
        "/picture": ("not_html", reply(b"x", headers={"Content-Type": "image/png"})),
        "/untyped": ("not_html", reply(b"<p>x")),
        "/reset": ("connection_failed", reply(reset=True)),
        "/cut": ("connection_failed", reply(b"x" * 1000, headers=html, cut=500)),
    }
    server.routes = {path: answer for path, (_, answer) in replies.items()}
    server.routes |= {"/far" + "r" * number: replies["/far"][1] for number in range(1, 9)}
    limits = Limits(page_bytes=1_000_000, redirects=5, request_timeout_s=0.4)
    config = fetch_config([server.url(path) for path in replies], limits=limits)
    counts = run_stage(STAGE, config)["counts"]
    found = {url.removeprefix(server.url("")): reason for url, reason in reasons(config.out).items()}
    assert found == {path: reason for path, (reason, _) in replies.items()}
    assert counts["failed"] == len(replies) and counts["failed_too_large"] == 3
    asked = Counter(server.paths())
    again = ("/broken", "/busy", "/slow-head", "/slow-body", "/reset", "/cut")  # 2 retries
    once = set(replies) - {*again, "/ping", "/pong"}
    assert [asked[path] for path in again] == [3] * len(again) and {asked[path] for path in once} == {1}
    assert asked["/far" + "r" * 5] == 1 and asked["/far" + "r" * 6] == 0


def test_bodies_are_decoded_and_trouble_passes(server: Any, reply: Any, fetch_config: Make) -> None:
    html, text = {"Content-Type": "text/html"}, "<p>größe".encode() * 999
    raw = zlib.compressobj(wbits=-15)
    server.routes = {
        "/gzip": reply(gzip.compress(text), headers=html | {"Content-Encoding": "gzip"}),
        "/members": reply(
            gzip.compress(text[:99]) + gzip.compress(text[99:]), headers=html | {"Content-Encoding": "x-gzip"}
        ),
        "/deflate": reply(zlib.compress(text), headers=html | {"Content-Encoding": "deflate"}),
        "/raw": reply(raw.compress(text) + raw.flush(), headers=html | {"Content-Encoding": "DEFLATE"}),
        "/then": [reply(status=500), reply(reset=True), reply(text, headers=html)],
        "/busy": [reply(status=503, headers={"Retry-After": "0"}), reply(text, headers=html)],
        "/moved": reply(status=301, headers={"Location": f"//127.0.0.2:{server.port}/x/../gzip"}),
    }
    config = fetch_config([server.url(path) for path in server.routes])
    assert run_stage(STAGE, config)["counts"]["failed"] == 0
    found = records(config.out)
    assert {Mirror(config.out).body(record) for record in found.values()} == {text}
    moved = found[server.url("/moved")]
    assert (moved.final_url, moved.redirects) == (server.url("/gzip", "127.0.0.2"), (server.url("/moved"),))


def test_retry_after_holds_for_the_whole_host(server: Any, reply: Any, fetch_config: Make) -> None:
    one = Politeness(delay_s=0.0, connections_per_host=1)
    server.page("/b", "b")
    server.page("/c", "c")
    server.routes["/a"] = [reply(status=429, headers={"Retry-After": "1"}), server.routes["/b"]]
    config = fetch_config([server.url(path) for path in ("/a", "/b", "/c")], workers=3, politeness=one)
    assert run_stage(STAGE, config)["counts"]["pages"] == 3
    times = [asked.started for asked in server.log if asked.path != "/robots.txt"]
    assert sorted(server.paths()) == ["/a", "/a", "/b", "/c"] and server.paths()[0] == "/a"
    assert times[1] - times[0] >= 1.0


def test_delay_and_connections_by_host(server: Any, reply: Any, fetch_config: Make) -> None:
    html = {"Content-Type": "text/html"}
    server.routes = {f"/{number}": reply(b"x", headers=html, wait_s=0.25) for number in range(6)}
    urls = [server.url(f"/{number}", host) for number in range(6) for host in ("127.0.0.1", "127.0.0.2")]
    politeness = Politeness(delay_s=0.1, connections_per_host=2)
    assert run_stage(STAGE, fetch_config(urls, politeness=politeness, workers=12))["counts"]["pages"] == 12
    for host in ("127.0.0.1", "127.0.0.2"):
        asked = [entry for entry in server.log if entry.host.startswith(host)]
        starts = [entry.started for entry in asked]
        gaps = [later - sooner for sooner, later in pairwise(starts)]
        assert min(gaps) >= 0.05
        at_once = [sum(other.started <= entry.started < other.ended for other in asked) for entry in asked]
        assert max(at_once) == 2
    span_s = max(entry.ended for entry in server.log) - min(entry.started for entry in server.log)
    assert span_s < 2 * 3 * 0.25 + 0.6, "two hosts are fetched side by side"


def test_robots_of_pages_and_resources(server: Any, reply: Any, fetch_config: Make) -> None:
    urls = site(server, reply, pages=2)
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
    ],
)
def test_robots_txt_by_its_answer(
    server: Any, reply: Any, fetch_config: Make, status: int, headers: dict[str, str], body: bytes, reason: str | None
) -> None:
    server.page("/a", "x")
    server.routes["/robots.txt"] = reply(body, status=status, headers=headers)
    server.routes["/rules"] = reply(b"User-agent: testbot\nDisallow: /a")
    config = fetch_config([server.url("/a")])
    run_stage(STAGE, config)
    assert reasons(config.out) == ({server.url("/a"): reason} if reason else {})
    assert server.paths().count("/a") == (0 if reason else 1)


def test_robots_of_a_host_that_a_page_moved_to(server: Any, reply: Any, fetch_config: Make) -> None:
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
    times = [asked.started for asked in server.log]
    assert min(later - sooner for sooner, later in pairwise(times[1:])) >= 0.4


def test_what_a_server_is_told(server: Any, fetch_config: Make) -> None:
    server.page("/a", "<img src=/b.png>", Set_Cookie="id=1", ETag='"e"')
    server.page("/b", "x")
    run_stage(STAGE, fetch_config([server.url("/a"), server.url("/b")], workers=1))
    for asked in server.log:
        assert asked.headers["user-agent"] == "testbot/1.0 (+https://test.example/bot)"
        assert not asked.headers.keys() & {"cookie", "referer", "authorization", "if-none-match"}


def test_unchanged_pages_are_not_sent_again(server: Any, reply: Any, fetch_config: Make, tmp_path: Path) -> None:
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


def test_too_many_failures_stop_and_only_what_may_change_is_asked_again(
    server: Any, reply: Any, fetch_config: Make
) -> None:
    urls = site(server, reply, pages=2)
    server.routes["/late"] = reply(status=500)
    config = fetch_config([*urls, server.url("/gone"), server.url("/late")], max_error_share=0.3)
    with pytest.raises(StageError, match=r"2 of 4 items failed, .*status_404"):
        run_stage(STAGE, config)
    server.page("/late", "now")
    server.log.clear()
    counts = run_stage(STAGE, config)["counts"]
    assert (counts["pages"], counts["failed"]) == (3, 1) and server.paths() == ["/late"]


def test_what_a_later_page_gets_is_missing_no_more(server: Any, reply: Any, fetch_config: Make) -> None:
    server.page("/a", "<img src=/x.png>")
    server.routes |= {"/b": reply(status=500), "/x.png": reply(status=503, headers={"Retry-After": "0"})}
    config = fetch_config([server.url("/a"), server.url("/b")], max_error_share=0.0)
    with pytest.raises(StageError, match="1 of 2 items failed"):
        run_stage(STAGE, config)
    server.page("/b", "<img src=/x.png>")
    server.routes["/x.png"] = reply(b"png", headers={"Content-Type": "image/png"})
    counts = run_stage(STAGE, config)["counts"]
    assert (counts["resources"], counts["resources_failed"], reasons(config.out)) == (1, 0, {})


def test_pages_with_too_many_or_too_slow_resources(server: Any, reply: Any, fetch_config: Make) -> None:
    png = {"Content-Type": "image/png"}
    for number in range(30):
        server.routes[f"/{number}.png"] = reply(b"x", headers=png)
        server.routes[f"/{number}.slow"] = reply(b"x", headers=png, wait_s=0.3)
    server.page("/many", "".join(f"<img src=/{number}.png>" for number in range(30)))
    server.page("/slow", "".join(f"<img src=/{number}.slow>" for number in range(30)))
    limits = Limits(resources_per_page=20, page_timeout_s=0.5)
    politeness = Politeness(delay_s=0.0, connections_per_host=1)
    config = fetch_config([server.url("/many"), server.url("/slow")], limits=limits, politeness=politeness, workers=1)
    counts = run_stage(STAGE, config)["counts"]
    assert counts["pages"] == 2 and counts["resources_failed_too_many_resources"] == 2
    assert 16 <= counts["resources_failed_page_timeout"] <= 19  # of 20 that take 0.3 s each, within 0.5 s
    assert sum(path.endswith(".slow") for path in server.paths()) <= 4
    assert sum(path.endswith(".png") for path in server.paths()) == 20


def test_a_page_of_the_list_is_nobodys_picture(server: Any, fetch_config: Make) -> None:
    server.page("/a", "<img src=/b>")
    server.page("/b", "<img src=/a>")
    config = fetch_config([server.url("/a"), server.url("/b")], workers=1)
    assert run_stage(STAGE, config)["counts"].items() >= {"pages": 2, "resources": 0, "resources_failed": 0}.items()
    assert sorted(server.paths()) == ["/a", "/b"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433", "[::ffff:127.0.0.1]"])
def test_private_hosts_are_refused_without_a_request(server: Any, fetch_config: Make, host: str) -> None:
    server.page("/a", "x")
    config = fetch_config([server.url("/a", host)], allow_private_hosts=False)
    run_stage(STAGE, config)
    assert reasons(config.out) == {server.url("/a", host): "private_address"} and server.log == []


def test_an_unknown_host_is_named(fetch_config: Make) -> None:
    config = fetch_config(["http://no-such-host.invalid/"], allow_private_hosts=False)
    run_stage(STAGE, config)
    assert reasons(config.out) == {"http://no-such-host.invalid/": "unknown_host"}


def test_lists_that_are_none(fetch_config: Make, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no URLs in this list"):
        run_stage(STAGE, fetch_config(["# nothing"]))
    config = fetch_config(["x"], name="binary")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="wanted UTF-8 text"):
        run_stage(STAGE, config)


@pytest.mark.parametrize("user_agent", ["", "1", "a\r\nX: y", "bot/1 \u2713", " bot"])
def test_user_agents(fetch_config: Make, user_agent: str) -> None:
    with pytest.raises(ValueError, match="user_agent: wanted"):
        fetch_config(["x"], user_agent=user_agent)


def test_the_smoke_config(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.page("/", "<title>Hello</title><p>A page.")
    monkeypatch.setenv("TILEWRIGHT_RUNS", str(tmp_path))
    (tmp_path / "smoke").mkdir()
    (tmp_path / "smoke" / "urls.txt").write_text(server.url("/"))
    config = load(ROOT / "configs/data_gen/fetch_pages/smoke.yaml", Config)
    assert run_stage(STAGE, config)["counts"]["pages"] == 1


def test_kill_and_resume(
    server: Any, reply: Any, fetch_config: Make, tmp_path: Path, kill_once_journalled: Callable[..., None]
) -> None:
    urls = site(server, reply, pages=30)
    yaml = tmp_path / "run.yaml"
    (tmp_path / "killed.txt").write_text("\n".join(urls))
    settings = {"user_agent": "testbot/1.0", "allow_private_hosts": True, "workers": 2, "max_error_share": 1.0}
    settings |= {"urls": "killed.txt", "out": "killed", "politeness": {"delay_s": 0.03}}
    yaml.write_text("\n".join(["kind: stage", *(f"{key}: {json.dumps(value)}" for key, value in settings.items())]))
    partial, finished = tmp_path / "killed.partial", set[str]()
    for lines in (3, 12, None):
        server.log.clear()
        if lines is None:
            run_stage(STAGE, load(yaml, Config))
        else:
            kill_once_journalled(["tilewright.data_gen.fetch_pages", str(yaml)], tmp_path / "killed", lines)
        asked = Counter(map(server.url, server.paths()))
        assert max(asked.values()) == 1 and not finished & set(asked), "no finished URL is asked for again"
        if lines is not None:
            journal = (partial / ".fetched.jsonl").read_text().splitlines()
            finished = {json.loads(line)["key"] for line in journal}
            assert lines <= len(finished) < 34
            (partial / "objects" / "aa").mkdir(exist_ok=True)
            (partial / "objects" / "aa" / ("a" * 64)).write_bytes(b"left by a kill")
    killed = tmp_path / "killed"
    whole = fetch_config(urls, name="whole")
    run_stage(STAGE, whole)
    assert mirror_without_times(killed) == mirror_without_times(whole.out)
    names = [set(output_digests(folder)) for folder in (killed, whole.out)]
    assert names[0] == names[1] and len(names[0]) == 30 + 3 + 2
    assert (killed / "failed.jsonl").read_bytes() == (whole.out / "failed.jsonl").read_bytes()
