"""The README's commands for the web, archives, PDFs, scans and tile stores, on small corpora of each kind."""

import http.server
import re
import shlex
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pypdfium2
import pytest
from libzim.writer import Creator, Item, StringProvider
from PIL import Image, ImageDraw

from tilewright.cli import main
from tilewright.data_gen.tile_store import TileStore

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTION = README.partition("### From the web")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```bash\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
COMMANDS = [shlex.split(line, comments=True)[1:] for block in BLOCKS for line in block.splitlines() if line.strip()]
PAGE = (
    "<!doctype html><title>{0}</title><link rel=stylesheet href=style.css><main><h1>{0}</h1>{1}</main><nav>Menu</nav>"
)
TEXT = "".join(f"<p>Line {number} of the page tells of moss, fern and the mill at Torvald.</p>" for number in range(60))


class Article(Item):  # type: ignore[misc]
    """A page of an archive."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = title

    def get_path(self) -> str:
        return self.title

    def get_title(self) -> str:
        return self.title

    def get_mimetype(self) -> str:
        return "text/html"

    def get_contentprovider(self) -> StringProvider:
        head = f"<link rel=canonical href='https://wiki.example.org/{self.title}'>"
        return StringProvider(PAGE.format(self.title, head + TEXT))

    def get_hints(self) -> dict[object, object]:
        return {}


@pytest.fixture
def corpora(tmp_path: Path) -> Iterator[None]:
    """my_urls.txt with a server behind it, my.zim, my_pdfs/, my_scans/ in ``tmp_path``."""
    for name in ("site", "my_pdfs", "my_scans"):
        (tmp_path / name).mkdir()
    (tmp_path / "site" / "style.css").write_text("p { color: #123 }")
    for name in ("moss", "fern"):
        (tmp_path / "site" / f"{name}.html").write_text(PAGE.format(name, TEXT))
    with Creator(str(tmp_path / "my.zim")).config_indexing(False, "eng") as creator:
        creator.add_item(Article("Moss"))
        creator.set_mainpath("Moss")
    document = pypdfium2.PdfDocument.new()
    document.new_page(612, 792)
    document.save(tmp_path / "my_pdfs" / "blank.pdf")
    scan = Image.new("L", (1200, 1700), 255)
    ImageDraw.Draw(scan).rectangle((100, 100, 1000, 1500), outline=0, width=20)
    scan.save(tmp_path / "my_scans" / "scan.png")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "site")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        (tmp_path / "my_urls.txt").write_text(f"{address}moss.html\n{address}fern.html\n")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield
        server.shutdown()
        thread.join()


@pytest.mark.browser
@pytest.mark.usefixtures("corpora")
def test_commands_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_RUNS", raising=False)
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        if command[0] == "fetch_pages":
            command = [*command, "allow_private_hosts=true", "politeness.delay_s=0.01"]  # the server of this test
        if command[:2] == ["tiles", "remove"]:
            command = [*command[:-1], TileStore.open(tmp_path / "runs/both").tile_ids[0][:16]]
        main(command)
    tiles = {name: len(TileStore.open(tmp_path / "runs" / name / "tiles")) for name in ("web", "zim", "pdf", "scans")}
    assert tiles["web"] == 2 * tiles["zim"] >= 4 and tiles["pdf"] == tiles["scans"] == 2
    for name in ("web", "zim"):
        text = " ".join(tile.text for tile in TileStore.open(tmp_path / "runs" / name / "tiles"))
        assert "Line 59 of the page" in text and "Menu" not in text
    assert len(TileStore.open(tmp_path / "runs/both")) in (tiles["zim"], tiles["web"] // 2 + tiles["zim"], tiles["web"])
    assert list((tmp_path / "runs/tars").glob("*.tar")) and (tmp_path / "runs/gallery.html").stat().st_size > 1000
