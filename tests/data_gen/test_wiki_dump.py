"""Dumps: streamed, redirects and other namespaces counted, damaged ones named as such."""

import bz2
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.configs.errors import InputError
from tilewright.data_gen.sources.wiki_dump import default_dump, iterate_articles

Dump = Callable[..., Path]
PAGES = {
    "Ada": "'''Ada''' was a mathematician.",
    "ADA": "#REDIRECT [[Ada]]",
    "Talk:Ada": "talk",
    "Blank": "  \n",
    "B & <C>": "text &amp; more",
}


def test_articles_and_what_is_skipped(write_dump: Dump) -> None:
    skipped: Counter[str] = Counter()
    articles = list(iterate_articles(write_dump(PAGES), skipped))
    assert [(article.title, article.url) for article in articles] == [
        ("Ada", "https://en.wikipedia.org/wiki/Ada"),
        ("B & <C>", "https://en.wikipedia.org/wiki/B_&_<C>"),
    ]
    assert articles[1].wikitext == "text &amp; more"
    assert skipped == {"redirects": 1, "other_namespaces": 1, "empty_pages": 1}


def test_white_space_in_titles_is_collapsed(write_dump: Dump) -> None:
    (article,) = iterate_articles(write_dump({" Ada\n\t Love\x85lace ": "x"}), Counter())
    assert (article.title, article.url) == ("Ada Love lace", "https://en.wikipedia.org/wiki/Ada_Love_lace")


def test_bz2_is_known_by_its_bytes_not_its_name(write_dump: Dump, tmp_path: Path) -> None:
    packed = tmp_path / "dump.data"
    packed.write_bytes(bz2.compress(write_dump(PAGES).read_bytes()))
    assert [article.title for article in iterate_articles(packed, Counter())] == ["Ada", "B & <C>"]


def test_another_wiki_gives_its_own_addresses(write_dump: Dump) -> None:
    path = write_dump({"Seite": "x"}, base="https://wiki.example.com/w/Hauptseite")
    assert next(iterate_articles(path, Counter())).url == "https://wiki.example.com/w/Seite"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("share", [0.5, 0.97])
def test_truncated_dump(write_dump: Dump, tmp_path: Path, packed: bool, share: float) -> None:
    data = write_dump({f"Page {number}": f"text {number} " * 300 for number in range(40)}).read_bytes()
    data = bz2.compress(data) if packed else data
    cut = tmp_path / "cut"
    cut.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(InputError, match=r"cut: dump is truncated or damaged after \d+ pages"):
        list(iterate_articles(cut, Counter()))


@pytest.mark.parametrize("text", ["<html></html>", "<mediawiki><page><title>A</title></page></mediawiki>", "", "plain"])
def test_what_is_no_dump(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.xml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"other\.xml"):
        list(iterate_articles(path, Counter()))


def test_missing_dump(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        list(iterate_articles(tmp_path / "none.xml.bz2", Counter()))


def test_memory_does_not_grow_with_the_dump(write_dump: Dump) -> None:
    def peak(count: int) -> int:
        path = write_dump({f"Page {number}": "word " * 4000 for number in range(count)}, name=f"{count}.xml")
        tracemalloc.start()
        assert sum(1 for _ in iterate_articles(path, Counter())) == count
        result = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return result

    assert peak(400) < 1.5 * peak(40)  # 8 MB against 0.8 MB of text


def test_default_dump_without_importing_gensim() -> None:
    program = """
import sys
from collections import Counter
from tilewright.data_gen.sources.wiki_dump import default_dump, iterate_articles
skipped = Counter()
titles = [article.title for article in iterate_articles(default_dump(), skipped)]
print(len(titles), len(set(titles)), skipped["redirects"], any(name.startswith("gensim") for name in sys.modules))
"""
    assert default_dump() is not None, "the extra `quickstart` brings it"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["106", "106", "100", "False"]
