"""Pages that misbehave: each gives right tiles or one counted, named failure; the others go on."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.stage import run_stage
from tilewright.data_gen.profiles import Profile
from tilewright.data_gen.records import FAILED, FailedPage, Page, read_jsonl
from tilewright.data_gen.render_tiles import STAGE, Config
from tilewright.data_gen.tile_store import TileStore

pytestmark = pytest.mark.browser
WritePages = Callable[[Path, Mapping[str, str]], Path]
STYLE = "<!doctype html><style>body{margin:0;font:14px/20px 'Liberation Sans',sans-serif}p{margin:0}</style>"
FINE = STYLE + "<p>fine</p>"


class Rendered:
    """Pages by title, tiles by title, failures by title, counts."""

    def __init__(self, folder: Path, pages: Mapping[str, str], write_pages: WritePages, **options: Any) -> None:
        write_pages(folder / "pages", pages)
        chosen: dict[str, Any] = {"workers": 2, "max_tiles": None, "max_tiles_per_page": None, "max_error_share": 1.0}
        config = Config(pages=folder / "pages", out=folder / "tiles", **(chosen | options))
        self.counts = run_stage(STAGE, config)["counts"]
        self.pages = {page.title: page for page in read_jsonl(config.out / "pages.jsonl", Page)}
        failed = read_jsonl(config.out / FAILED, FailedPage)
        self.failed = {page.url.rpartition("/")[2]: page.reason for page in failed}
        self.store = TileStore.open(config.out)
        self.text: dict[str, str] = {}
        for tile in self.store:
            self.text[tile.title] = f"{self.text.get(tile.title, '')}\n{tile.text}".strip()


def test_without_scripts(tmp_path: Path, write_pages: WritePages) -> None:
    pages = {
        "fine": FINE,
        "broken_images": STYLE
        + "<p>x</p><img src='https://example.com/gone.png'><img src='data:image/png;base64,AAAA'>"
        + "<img data-src='https://[no address/'>",
        "missing_css": "<!doctype html><link rel=stylesheet href=/gone.css><p>styled by none</p>",
        "frames": STYLE + "<p>a</p>" + "<iframe src='frames'></iframe><iframe srcdoc='<p>in</p>'></iframe>" * 200,
        "refresh": "<!doctype html><meta http-equiv=refresh content='0;url=/dir/fine'><p>still here</p>",
        "cjk": STYLE + "<p lang=ja>日本語の文章。</p><p lang=zh>中文</p>",
        "links": STYLE + "".join(f"<a href='/l/{number}'>l{number}</a> " for number in range(10_000)),
        "other_page": STYLE
        + "<p>p</p><iframe src='/dir/fine'></iframe><img src='/dir/fine'><object data='/dir/fine'></object>",
        "files": STYLE + "<p>f</p><img src='file:///etc/hostname'><iframe src='file:///etc/passwd'></iframe>",
        "fonts": STYLE
        + "<style>@font-face{font-family:gone;src:url(/gone.woff2)}p{font-family:gone}</style><p>fonts</p>",
    }
    found = Rendered(tmp_path, pages, write_pages)
    assert found.failed == {} and found.pages.keys() == pages.keys()
    assert found.pages["broken_images"].images_failed == 3 and found.pages["fine"].images_failed == 0
    assert found.pages["fonts"].fonts_missing == 1 and found.counts["fonts_missing"] == 1
    assert found.text["missing_css"] == "styled by none" and found.text["refresh"] == "still here"
    assert found.text["cjk"] == "日本語の文章。\n中文"
    assert found.text["other_page"] == "p" and found.text["files"] == "f"
    links = [link.href for tile in found.store if tile.title == "links" for link in tile.links]
    assert sorted(links) == sorted(f"https://example.com/l/{number}" for number in range(10_000))
    assert found.counts["requests_refused"] >= 7
    assert all(page.complete for page in found.pages.values())


def test_with_scripts(tmp_path: Path, write_pages: WritePages) -> None:
    pages = {
        "fine": FINE,
        "endless": STYLE + "<p style='height:3000px'>start</p><script>addEventListener('scroll', () => "
        "document.body.insertAdjacentHTML('beforeend', '<p style=\"height:500px\">more</p>'))</script>",
        "leaves": STYLE + "<p>stays</p><script>location.href='https://example.com/dir/fine'</script>",
        "pops_up": STYLE + "<p>one</p><script>open('/dir/fine'); alert(1); confirm(2); prompt(3)</script>",
        "alerts": STYLE + "<p>never</p><script>for (;;) alert(1)</script>",
        "spins": STYLE + "<p>never</p><script>for (;;);</script>",
        "grows": STYLE + "<p>start</p><script>setInterval(() => "
        "document.body.insertAdjacentHTML('beforeend', '<p>more</p>'), 5)</script>",
        "asks": STYLE + "<p id=p>asked</p><script>p.textContent = [document.cookie, localStorage.length].join();"
        "document.cookie='a=1'; localStorage.setItem('a', 1);"
        "fetch('/dir/fine').then(() => p.textContent = 'leak', () => p.textContent += ' refused');"
        "new WebSocket('ws://127.0.0.1:9/'); navigator.serviceWorker && navigator.serviceWorker.register('/w.js');"
        "navigator.geolocation.getCurrentPosition(() => p.textContent = 'leak')</script>",
        "downloads": STYLE + "<a id=a download=x href='data:text/plain,x'>get</a><script>a.click()</script>",
    }
    pages["overrides"] = (
        STYLE + "<p>honest</p><script>JSON.stringify = () => '[1, 1]'; Array.prototype.toJSON = () => 0;"
    )
    pages["overrides"] += "document.querySelectorAll = () => []; window.getComputedStyle = () => ({})</script>"
    pages["asks_again"] = pages["asks"]
    found = Rendered(tmp_path, pages, write_pages, profile=Profile(javascript=True, settle_s=0.2), page_timeout_s=12.0)
    assert found.failed.keys() == {"alerts", "spins"}
    assert all("took more than page_timeout_s = 12.0 s" in reason for reason in found.failed.values())
    assert not found.pages["endless"].complete and not found.pages["grows"].complete
    assert found.counts["pages_whose_height_changed"] == 2
    assert found.text["endless"].startswith("start") and found.text["leaves"] == "stays"
    assert found.text["pops_up"] == "one" and found.text["downloads"] == "get"
    assert found.text["asks"] == found.text["asks_again"] == ",0 refused"
    assert found.text["overrides"] == "honest" and found.pages["overrides"].complete
    assert found.pages["fine"].complete and found.counts["failed"] == 2


def test_a_page_that_goes_where_the_browser_asks_nobody(tmp_path: Path, write_pages: WritePages) -> None:
    blank = "<meta http-equiv=refresh content='0;url=about:blank'>"
    found = Rendered(tmp_path / "off", {"leaves": STYLE + blank + "<p>gone</p>", "fine": FINE}, write_pages)
    assert found.failed == {"leaves": "https://example.com/dir/leaves: it went to about:blank by itself"}
    assert found.text == {"fine": "fine"} and found.counts["dropped_zero_height"] == 0
    pages = {
        "blob": STYLE + "<p>gone</p><script>location.href = URL.createObjectURL(new Blob(['<p>elsewhere</p>'],"
        " {type: 'text/html'}))</script>",
        "blank": STYLE + "<p>gone</p><script>location.href = 'about:blank'</script>",
        "written": STYLE + "<script>onload = () => { document.open(); document.write('<p>new</p>'); document.close() }"
        "</script>",
    }
    found = Rendered(tmp_path / "on", pages, write_pages, profile=Profile(javascript=True, settle_s=0.3))
    assert found.failed == {
        "blob": "https://example.com/dir/blob: it went to a blob of its own by itself",
        "blank": "https://example.com/dir/blank: it went to about:blank by itself",
    }
    assert found.text == {"written": "new"}


def test_words_that_change_between_layout_and_capture(tmp_path: Path, write_pages: WritePages) -> None:
    blink = STYLE + "<p id=p>on</p><script>addEventListener('scroll', () => {p.textContent = 'off'})</script>"
    blink += "<p style='height:3000px'>x</p>"
    pages = {"blink": blink, "fine": FINE}
    found = Rendered(tmp_path, pages, write_pages, profile=Profile(javascript=True, settle_s=0.1))
    assert found.pages["fine"].complete and not found.pages["blink"].complete
    assert found.counts["pages_whose_words_changed"] == 1 and found.counts["pages_whose_height_changed"] == 0


def test_numbers_that_are_none(tmp_path: Path, write_pages: WritePages) -> None:
    """One such page stopped the whole stage."""
    pages = {
        "no_margin": "<body style='display:contents;margin-bottom:auto'>text",
        "scaled": STYLE + "<p>text</p><div style='transform:scale(1e308)'>big <a href=x>link</a><p>big</p></div>",
        "no_place": STYLE + "<p style='margin-left:calc(NaN * 1px);transform:translate(calc(NaN * 1px))'>text</p>",
        "far": STYLE + "<p>text</p><p style='margin-left:-1e38px'>far</p>",
        "infinite": STYLE + "<p style='width:calc(infinity * 1px);height:calc(infinity * 1px)'>x</p>",
    }
    found = Rendered(tmp_path, pages, write_pages)
    assert found.failed.keys() == {"infinite"} and "px high" in found.failed["infinite"]
    assert found.text == dict.fromkeys(pages.keys() - {"infinite"}, "text")


NAMES = ("body", "documentElement", "fonts", "readyState", "querySelectorAll", "adoptedStyleSheets", "createElement")


def test_names_in_markup_hide_nothing_from_us(tmp_path: Path, write_pages: WritePages) -> None:
    """A document and a form have properties named like what they hold, in the place of their own."""
    pages = {name: STYLE + f"<form name={name}></form><img name={name} alt=''><p>text</p>" for name in NAMES}
    controls = "style tagName children childNodes textContent getBoundingClientRect shadowRoot elements closest"
    fields = "".join(f"<input name={name}><select id={name}></select>" for name in controls.split())
    fields += "".join(f"<img alt='' name={name}>" for name in controls.split())
    pages["form"] = STYLE + f"<form style='position:fixed'><p>text</p>{fields}</form><input name=style form=a>"
    found = Rendered(tmp_path, pages, write_pages, page_timeout_s=20.0)
    assert found.failed == {} and found.text == dict.fromkeys(pages, "text")


@pytest.mark.slow
def test_a_million_nodes(tmp_path: Path, write_pages: WritePages) -> None:
    many = STYLE + "<p>start</p>" + "<i></i>" * 999_990 + "<p>end</p>"
    found = Rendered(tmp_path, {"many": many, "fine": FINE}, write_pages)
    assert found.text["many"] == "start\nend" and found.pages["many"].complete


def test_the_browser_is_started_anew(tmp_path: Path, write_pages: WritePages) -> None:
    pages = {str(number): STYLE + f"<p>page {number}</p>" for number in range(9)}
    found = Rendered(tmp_path, pages, write_pages, pages_per_browser=2, workers=3)
    assert found.text == {title: f"page {title}" for title in pages}
