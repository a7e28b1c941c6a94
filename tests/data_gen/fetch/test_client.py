"""Asking servers: every failure by its name, politeness, and what a server is told."""

import gzip
import shutil
import ssl
import subprocess
import threading
import zlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.stage import run_stage
from tilewright.data_gen.fetch.mirror import Failure, Mirror, MirrorRecord
from tilewright.data_gen.fetch.settings import Limits, Politeness
from tilewright.data_gen.fetch_pages import STAGE, Config
from tilewright.data_gen.records import read_jsonl

Make = Callable[..., Config]
Reasons = Callable[[Path], dict[str, str]]
Records = Callable[[Path], dict[str, MirrorRecord]]


class QuietFiles(SimpleHTTPRequestHandler):
    """Serves files and writes no log."""

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def test_every_failure_has_its_name(server: Any, reply: Any, fetch_config: Make, reasons: Reasons) -> None:
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


def test_bodies_are_decoded_and_trouble_passes(server: Any, reply: Any, fetch_config: Make, records: Records) -> None:
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


def test_headers_that_nobody_can_read_stop_nothing(
    server: Any, reply: Any, fetch_config: Make, reasons: Reasons, records: Records
) -> None:
    kinds = (
        "text/html;charset*1*;charset*",
        "text/html; charset*=%zz''%E4",
        "text/html;charset=\xff",
        "TEXT/HTML ;charset",
    )
    server.routes = {f"/{i}": reply(b"<p>x", headers={"Content-Type": kind}) for i, kind in enumerate(kinds)}
    date = "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"
    server.routes["/busy"] = reply(status=503, headers={"Retry-After": date})
    config = fetch_config([server.url(path) for path in server.routes])
    run_stage(STAGE, config)
    assert reasons(config.out) == {server.url("/busy"): "status_503"}
    assert sorted(records(config.out)) == [server.url(f"/{i}") for i in range(len(kinds))]


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


def test_delay_between_requests_to_a_host(server: Any, fetch_config: Make) -> None:
    for number in range(4):
        server.page(f"/{number}", "x")
    politeness = Politeness(delay_s=0.4, connections_per_host=4)
    config = fetch_config([server.url(f"/{number}") for number in range(4)], workers=4, politeness=politeness)
    assert run_stage(STAGE, config)["counts"]["pages"] == 4
    robots, *pages = server.log
    assert all(page.started - robots.started >= 0.4 * number for number, page in enumerate(pages))


def test_connections_by_host(server: Any, reply: Any, fetch_config: Make) -> None:
    html = {"Content-Type": "text/html"}
    server.routes = {f"/{number}": reply(b"x", headers=html, wait_s=0.4) for number in range(6)}
    urls = [server.url(f"/{number}", host) for number in range(6) for host in ("127.0.0.1", "127.0.0.2")]
    politeness = Politeness(delay_s=0.0, connections_per_host=2)
    assert run_stage(STAGE, fetch_config(urls, politeness=politeness, workers=12))["counts"]["pages"] == 12

    def at_once(entries: list[Any]) -> int:
        return max(sum(other.started <= entry.started < other.answered for other in entries) for entry in entries)

    pages = [entry for entry in server.log if entry.path != "/robots.txt"]
    for host in ("127.0.0.1", "127.0.0.2"):
        assert at_once([entry for entry in pages if entry.host.startswith(host)]) == 2
    assert at_once(pages) > 2, "two hosts are fetched side by side"


def test_what_a_server_is_told(server: Any, fetch_config: Make) -> None:
    server.page("/a", "<img src=/b.png>", Set_Cookie="id=1", ETag='"e"')
    server.page("/b", "x")
    run_stage(STAGE, fetch_config([server.url("/a"), server.url("/b")], workers=1))
    for asked in server.log:
        assert asked.headers["user-agent"] == "testbot/1.0 (+https://test.example/bot)"
        assert not asked.headers.keys() & {"cookie", "referer", "authorization", "if-none-match"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433", "[::ffff:127.0.0.1]"])
def test_private_hosts_are_refused_without_a_request(
    server: Any, fetch_config: Make, host: str, reasons: Reasons
) -> None:
    server.page("/a", "x")
    config = fetch_config([server.url("/a", host)], allow_private_hosts=False)
    run_stage(STAGE, config)
    assert reasons(config.out) == {server.url("/a", host): "private_address"} and server.log == []


def test_an_unknown_host_is_named(fetch_config: Make, reasons: Reasons) -> None:
    config = fetch_config(["http://no-such-host.invalid/"], allow_private_hosts=False)
    run_stage(STAGE, config)
    assert reasons(config.out) == {"http://no-such-host.invalid/": "unknown_host"}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
@pytest.mark.parametrize("trusted", [False, True])
def test_certificates_are_checked(
    fetch_config: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    ]
    command += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.html").write_text("<p>a")
    handler = partial(QuietFiles, directory=str(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        if trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        config = fetch_config([f"https://localhost:{server.server_port}/a.html"])
        counts = run_stage(STAGE, config)["counts"]
        server.shutdown()
    assert counts["pages"] == int(trusted)
    if not trusted:
        (failure,) = read_jsonl(config.out / "failed.jsonl", Failure)
        assert failure.reason == "robots_unreachable" and "certificate of localhost isn't trusted" in failure.detail
