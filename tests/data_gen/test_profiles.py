"""Profiles in a real Chromium: chrome goes, content stays, collapsed parts open, nothing moves, scripts by choice."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.configs.digests import output_digests
from tilewright.configs.load import ConfigError, load
from tilewright.configs.stage import run_stage
from tilewright.data_gen.profiles import PROFILES, Profile, profile_of
from tilewright.data_gen.records import Page, read_jsonl
from tilewright.data_gen.render_tiles import STAGE, Config
from tilewright.data_gen.tile_store import TileStore

pytestmark = pytest.mark.browser
WritePages = Callable[[Path, Mapping[str, str]], Path]
STYLE = "<!doctype html><style>body{margin:40px;font:14px/20px 'Liberation Sans',sans-serif}p{margin:0}</style>"
WIKI = (
    STYLE + "<div id=mw-head>Log in</div><div id=siteNotice>Give</div><div class=wrap>loose<div id=content>"
    "<h1>Moss <span class=mw-editsection>[edit]</span></h1><div id=toc>Contents</div>"
    "<nav>Menu</nav><p>Moss is green.</p><table class=mw-collapsed><tr style='display:none'>"
    "<td>folded</td></tr></table>"
    "<details><summary>More</summary><p>opened</p></details><table class=navbox><tr><td>See also</td></tr></table>"
    "</div></div><div id=mw-panel>Tools</div><footer>Imprint</footer>"
)
NEWS = (
    STYLE + "<header>Paper</header><div id=onetrust-consent-sdk>We value cookies</div>"
    "<main><article><h1>Storm</h1><p>It blew.</p><aside>Ad</aside>"
    "<div class='Related-links'>More storms</div></article>"
    "</main><footer>Imprint</footer>"
)
DOCS = (
    "<!doctype html><style>html,body{height:100%;margin:0;overflow:hidden}.shell{display:grid;height:100%;"
    "grid-template-columns:300px 1fr}main{overflow:auto}</style><div class=shell><div class=sidebar>Index</div>"
    "<main><h1>API</h1><p style='height:3000px'>call()</p><p>end</p></main></div>"
)


def render(folder: Path, pages: Mapping[str, str], write_pages: WritePages, **options: Any) -> tuple[Any, TileStore]:
    """(pages by title with the manifest's counts under "", their tiles)."""
    if not (folder / "pages").exists():
        write_pages(folder / "pages", pages)
    out = folder / f"tiles-{len(list(folder.iterdir()))}"
    chosen: dict[str, Any] = {"workers": 2, "max_tiles": None, "max_tiles_per_page": None, "max_error_share": 1.0}
    counts = run_stage(STAGE, Config(pages=folder / "pages", out=out, **(chosen | options)))["counts"]
    found: dict[str, Any] = {page.title: page for page in read_jsonl(out / "pages.jsonl", Page)}
    return found | {"": counts}, TileStore.open(out)


def texts(store: TileStore) -> str:
    return " | ".join(tile.text.replace("\n", " / ") for tile in store)


@pytest.mark.parametrize(
    ("profile", "html", "text"),
    [
        ("mediawiki", WIKI, "Moss / Moss is green. / folded / More / opened"),
        ("news", NEWS, "Storm / It blew."),
        ("docs", DOCS, "API / call()"),
    ],
)
def test_content_only(tmp_path: Path, write_pages: WritePages, profile: str, html: str, text: str) -> None:
    pages, store = render(tmp_path, {"a": html}, write_pages, profile=profile)
    assert texts(store).startswith(text)
    left = min(word.x_px for tile in store for word in tile.words)
    top = min(word.y_px for tile in store for word in tile.words if tile.row == 0)
    assert left == pytest.approx(16, abs=2) and top < 60  # margin_px, not the page's own white space
    assert pages["a"].complete


def test_what_scrolls_inside_is_laid_out_in_full(tmp_path: Path, write_pages: WritePages) -> None:
    pages, store = render(tmp_path, {"a": DOCS}, write_pages, profile="docs")
    assert pages["a"].height_px > 3000 and texts(store).endswith("end")
    whole, _ = render(tmp_path, {"a": DOCS}, write_pages, profile="none")
    assert not whole["a"].complete and whole[""]["pages_with_clipped_parts"] == 1


def test_what_scrolls_sideways_is_not_called_complete(tmp_path: Path, write_pages: WritePages) -> None:
    line = "word " * 100 + "end"
    pages, store = render(
        tmp_path,
        {
            "code": STYLE + f"<pre style='overflow-x:auto'>{line}</pre>",
            "fits": STYLE + "<pre style='overflow-x:auto'>word</pre><textarea wrap=off>" + line + "</textarea>",
        },
        write_pages,
    )
    assert not pages["code"].complete and pages["fits"].complete
    assert pages[""]["pages_with_clipped_parts"] == 1 and "end" not in texts(store)


def test_without_content_the_body_is_kept(tmp_path: Path, write_pages: WritePages) -> None:
    _, store = render(tmp_path, {"a": STYLE + "<p>only this</p><nav>menu</nav>"}, write_pages, profile="news")
    assert texts(store) == "only this"


def test_a_profile_of_ones_own(tmp_path: Path, write_pages: WritePages) -> None:
    yaml = tmp_path / "run.yaml"
    write_pages(tmp_path / "pages", {"a": STYLE + "<p class=x>keep</p><p class=y>drop</p>"})
    head = "kind: stage\npages: pages\nout: out\nworkers: 1\nmax_tiles: null\nmax_tiles_per_page: null\n"
    yaml.write_text(head + "profile: {remove: [.y], margin_px: 0}\n")
    run_stage(STAGE, load(yaml, Config))
    (tile,) = TileStore.open(tmp_path / "out")
    assert (tile.text, tile.height_px, tile.words[0].x_px) == ("keep", 32, 0.0) or tile.height_px == 20
    yaml.write_text(head + "profile: medaiwiki\n")
    with pytest.raises(ConfigError, match="mediawiki"):
        load(yaml, Config)
    assert profile_of("docs") is PROFILES["docs"] and profile_of(Profile()) == PROFILES["none"]


def test_nothing_moves(tmp_path: Path, write_pages: WritePages) -> None:
    moving = (
        STYLE + "<style>@keyframes s{from{background:red}to{background:blue}}@keyframes f{from{opacity:0}to{opacity:1}}"
        "i{display:block;height:50px;animation:s 1s linear infinite alternate}"
        "b{display:block;opacity:0;animation:f 9s forwards}</style>"
        "<i></i><b>faded in</b><p style='position:sticky;top:0'>stuck</p><p style='height:3000px'>x</p>"
        "<marquee>run</marquee>"
    )
    runs = [render(tmp_path, {"a": moving}, write_pages)[1] for _ in range(2)]
    digests = [output_digests(store.folder.parent) for store in runs]
    assert digests[0] == digests[1]
    assert "faded in" in texts(runs[0]) and texts(runs[0]).count("stuck") == 1


def test_scripts_run_by_choice(tmp_path: Path, write_pages: WritePages) -> None:
    html = (
        STYLE + "<p id=p>before</p><script>setTimeout(() => {p.textContent = 'after'; "
        "p.insertAdjacentHTML('afterend', '<div style=\"height:2000px\">late</div>')}, 200)</script>"
    )
    off, store = render(tmp_path, {"a": html}, write_pages)
    assert texts(store) == "before"
    on, store = render(tmp_path, {"a": html}, write_pages, profile=Profile(javascript=True))
    assert texts(store).startswith("after / late") and on["a"].height_px > 2000 > off["a"].height_px
    assert on["a"].complete


RED = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' width='60' height='60'%3E%3Crect width='60' "
RED += "height='60' fill='red'/%3E%3C/svg%3E"
DOT = "data:image/gif;base64,R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs="


@pytest.mark.parametrize(
    "markup",
    [
        f'<img data-src="{RED}" src="{DOT}">',
        f'<img data-lazy-src="{RED}">',
        f'<img data-original="{RED}" src="/dir/no_such_placeholder.gif">',
        f'<img src="{DOT}" srcset="{DOT} 1x" data-srcset="{RED.replace(" ", "%20")} 1x">',
        f'<picture><source data-srcset="{RED.replace(" ", "%20")} 1x"><img src="{DOT}"></picture>',
    ],
)
def test_lazy_pictures_by_data_attribute(tmp_path: Path, write_pages: WritePages, markup: str) -> None:
    pages, store = render(tmp_path, {"a": STYLE + markup}, write_pages)
    (tile,) = store
    pixels = np.asarray(store.image(tile.tile_id)).reshape(-1, 3)
    assert (pixels == (255, 0, 0)).all(axis=1).sum() == 3600 and pages["a"].images_failed == 0
