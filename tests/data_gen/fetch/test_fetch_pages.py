"""fetch_pages against a real server: what lands in the mirror, how often it's asked for, and kill -9 on the way."""

import dataclasses
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
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
Reasons = Callable[[Path], dict[str, str]]
Records = Callable[[Path], dict[str, MirrorRecord]]
ROOT = Path(__file__).parents[3]


def mirror_without_times(folder: Path) -> list[MirrorRecord]:
    return [dataclasses.replace(record, fetched="", checked="") for record in Mirror(folder).records()]


def test_pages_with_what_they_show(
    shown: str, server: Any, reply: Any, fetch_config: Make, records: Records, site: Callable[..., list[str]]
) -> None:
    config = fetch_config(site(3)[::-1])
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
    assert (page.media_type, page.charset, page.size_bytes) == ("text/html", "utf-8", len(shown) + 8)
    assert page.resources == tuple(sorted(map(server.url, ("/s.css", "/a.png", "/none.png"))))
    assert Mirror(config.out).body(page) == f"{shown}<p>1</p>".encode()
    assert found[server.url("/s.css")].resources == (server.url("/fonts/f.woff2"),)
    (failure,) = read_jsonl(config.out / "failed.jsonl", Failure)
    assert failure == Failure(server.url("/none.png"), "resource", "status_404", "the server answered 404")
    assert {len(list(config.out.glob("objects/*/*"))), len({record.sha256 for record in found.values()})} == {6}


def test_a_second_start_asks_nothing(
    server: Any, reply: Any, fetch_config: Make, site: Callable[..., list[str]]
) -> None:
    config = fetch_config(site())
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


def test_too_many_failures_stop_and_only_what_may_change_is_asked_again(
    server: Any, reply: Any, fetch_config: Make, site: Callable[..., list[str]]
) -> None:
    urls = site(2)
    server.routes["/late"] = reply(status=500)
    config = fetch_config([*urls, server.url("/gone"), server.url("/late")], max_error_share=0.3)
    with pytest.raises(StageError, match=r"2 of 4 items failed, .*status_404"):
        run_stage(STAGE, config)
    server.page("/late", "now")
    server.log.clear()
    counts = run_stage(STAGE, config)["counts"]
    assert (counts["pages"], counts["failed"]) == (3, 1) and server.paths() == ["/late"]


def test_what_a_later_page_gets_is_missing_no_more(
    server: Any, reply: Any, fetch_config: Make, reasons: Reasons
) -> None:
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


def test_a_stylesheet_that_its_server_gives_no_type_is_known_by_its_name(
    server: Any, reply: Any, fetch_config: Make, records: Records
) -> None:
    server.page("/a", "<link rel=stylesheet href='/s.css?v=1'><link rel=stylesheet href='/plain'>")
    rules = b"p{background:url(bg.png)}"
    server.routes |= {"/s.css?v=1": reply(rules), "/plain": reply(rules), "/bg.png": reply(b"png")}
    config = fetch_config([server.url("/a")])
    assert run_stage(STAGE, config)["counts"]["resources"] == 3
    found = records(config.out)
    assert found[server.url("/s.css?v=1")].resources == (server.url("/bg.png"),)
    assert found[server.url("/s.css?v=1")].media_type == "" and found[server.url("/plain")].resources == ()


def test_a_page_of_the_list_is_nobodys_picture(server: Any, fetch_config: Make) -> None:
    server.page("/a", "<img src=/b>")
    server.page("/b", "<img src=/a>")
    config = fetch_config([server.url("/a"), server.url("/b")], workers=1)
    assert run_stage(STAGE, config)["counts"].items() >= {"pages": 2, "resources": 0, "resources_failed": 0}.items()
    assert sorted(server.paths()) == ["/a", "/b"]


@pytest.mark.parametrize("module", ["httpx2", "protego", "selectolax"])
def test_a_missing_package_says_what_to_install(server: Any, fetch_config: Make, tmp_path: Path, module: str) -> None:
    server.page("/a", "<p>a")
    config = fetch_config([server.url("/a")])
    program = f"""
import sys
sys.modules[{module!r}] = None
from pathlib import Path
from tilewright.configs.stage import run_stage
from tilewright.data_gen.fetch_pages import STAGE, Config
run_stage(STAGE, Config(out=Path({str(config.out)!r}), user_agent="bot", urls=Path({str(config.urls)!r}),
                        allow_private_hosts=True))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert re.search(rf"InputError: .* needs? {module}.*: pip install tilewright\[fetch\]", last), last


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
    server: Any,
    reply: Any,
    fetch_config: Make,
    tmp_path: Path,
    kill_once_journalled: Callable[..., None],
    site: Callable[..., list[str]],
) -> None:
    urls = site(30)
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
