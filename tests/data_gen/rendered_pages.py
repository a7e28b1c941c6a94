"""Pages for the tests of render_tiles, and a finished render of them."""

import base64
import io
from pathlib import Path
from typing import Any

from PIL import Image

from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import Page, Tile, read_jsonl
from tilewright.data_gen.render_tiles import STAGE, Config
from tilewright.data_gen.tile_store import TileStore

STYLE = "<!doctype html><style>body{margin:0;font:14px/20px 'Liberation Sans',sans-serif}p,ul,table{margin:0}</style>"


def png(color: str, size: tuple[int, int]) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, format="PNG")
    return buffer.getvalue()


DATA_URI = "data:image/png;base64," + base64.b64encode(png("red", (50, 40))).decode()
PAGES = {
    "text": STYLE + "<h1>Head</h1><p>One <b>b</b>old H<sub>2</sub>O <a href='../up?q=1#f'>the\n link</a></p>",
    "image_only": f"<!doctype html><body style='margin:0'><img src='{DATA_URI}' style='display:block'>",
    "drawing": "<!doctype html><body style='margin:0'><svg width=300 height=700 style='display:block'></svg>",
    "no_body": "<title>Only a head</title>",
    "bare_text": "just words, no markup",
    "zero_height": "<!doctype html><body style='margin:0'><div style='display:none'>hidden</div>",
    "frameset": "<frameset cols='50%,50%'><frame src='a.html'></frameset>",
    "empty": "",
    "remote": STYLE + "<link rel=stylesheet href='https://example.com/x.css'>"
    "<meta http-equiv=refresh content='0;url=https://example.com/'>"
    "<style>@import url(http://example.com/y.css); @font-face{font-family:f;src:url(https://example.com/f.woff)}"
    "p{font-family:f,sans-serif}</style><p>still here</p><img src='https://example.com/i.png'>"
    "<iframe src='http://example.com/'></iframe><img src='/etc/hostname'><img src='../../outside.png'>",
    "script": STYLE
    + "<p id=p>before</p><script>document.getElementById('p').textContent='after'</script><noscript>none</noscript>",
    "hidden": STYLE + "<p>seen <span style='visibility:hidden'>ghost</span><span style='display:none'>gone</span>"
    "<span style='opacity:0'>clear</span>"
    "<span style='position:absolute;width:1px;height:1px;overflow:hidden'>reader</span></p>"
    "<style>x{}</style><textarea>typed</textarea>",
    "wide": STYLE + "<div style='width:1200px;height:300px;background:linear-gradient(90deg,red,blue)'>wide</div>",
    "barely_wide": STYLE + "<div style='width:900px;height:100px;background:#0f0'></div>",
    "tail": STYLE + "<div style='height:2075px;background:linear-gradient(red,blue)'></div>",
    "fixed": STYLE + "<div style='position:fixed;top:0;left:0;width:40px;height:40px;background:#0f0'></div>"
    "<div style='height:3000px'></div><p>end</p>",
    "viewport_units": STYLE + "<div style='height:100vh;background:#eef'></div><p>below</p>",
    "lazy": STYLE + f"<div style='height:6000px'></div><img loading=lazy src='{DATA_URI}' style='display:block'>",
    "inner_scroll": "<!doctype html><style>html,body{height:100%;margin:0;overflow:hidden}"
    "div{height:100%;overflow:auto}</style><div><p style='height:5000px'>inside</p></div>",
    "smooth": STYLE.replace("body{", "html{scroll-behavior:smooth}body{") + "<p style='height:5000px'>a</p><p>z</p>",
    "rtl": STYLE.replace("<style>", "<html dir=rtl><style>")
    + "<p>שלום עולם 🙂 مرحبا</p><div style='width:2000px;background:linear-gradient(90deg,red,blue)'>רחב</div>",
    "long": STYLE + "".join(f"<p>row {number}</p>" for number in range(1000)),
}
ODD_TITLES = ("../../x", "a/b", "q\"uo'te", "🙂", "שלום")
PAGES |= dict.fromkeys(ODD_TITLES, PAGES["text"])
TABLES = (
    STYLE
    + """<h2>Sec <i>tion</i></h2>
<table class="infobox vcard"><tr><th colspan=2>Ada</th></tr>
<tr><th>Born</th><td>10 December 1815<br>London</td></tr></table>
<ul><li>first<ul><li>inner</li></ul></li></ul>
<table><caption>Cap</caption>
<tr><th colspan=3>Title</th></tr>
<tr><th rowspan=2>Year</th><th colspan=2>Score</th></tr><tr><th>Home</th><th>Away</th></tr>
<tr><td rowspan=2>1999</td><td>3</td><td><ul><li>1</li></ul></td></tr>
<tr><td>7</td><td>5 <p>five</p></td></tr></table>
<p>In <math><mi>x</mi><mo>=</mo><mn>2</mn></math> math</p>"""
)


def make_config(pages: Path, out: Path, **options: Any) -> Config:
    chosen: dict[str, Any] = {"workers": 2, "max_tiles": None, "max_tiles_per_page": None} | options
    return Config(pages=pages, out=out, **chosen)


class Rendered:
    """A finished render: its manifest's counts, pages by title, tiles by title in order."""

    def __init__(self, config: Config) -> None:
        self.counts = run_stage(STAGE, config)["counts"]
        self.out = config.out
        self.pages = {page.title: page for page in read_jsonl(config.out / "pages.jsonl", Page)}
        self.store = TileStore.open(config.out)
        self.tiles: dict[str, list[Tile]] = {}
        for tile in self.store:
            self.tiles.setdefault(tile.title, []).append(tile)

    def picture(self, title: str) -> Image.Image:
        """All tiles of a page put together where they say they lie."""
        page = self.pages[title]
        whole = Image.new("RGB", (page.width_px, page.height_px), "magenta")
        for tile in self.tiles[title]:
            whole.paste(self.store.image(tile.tile_id), (tile.x_px, tile.y_px))
        return whole
