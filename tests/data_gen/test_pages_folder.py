"""The folder of documents and resources: each content once, read back as written, and nothing from outside of it."""

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.data_gen.sources.pages_folder import PagesFolder
from tilewright.data_gen.sources.source import Document, Resource

NAME = "0123456789abcdef"
RESOURCES = st.dictionaries(
    st.text(min_size=1, max_size=20).map(lambda text: f"https://h.example/{text}"),
    st.tuples(st.sampled_from(["image/png", "text/css", ""]), st.binary(max_size=20)),
    max_size=5,
)


def document(data: bytes | None = b"x", resources: list[Resource] | None = None) -> Document:
    return Document(data, ".html", "0" * 64, resources=resources or [])


@given(data=st.binary(max_size=50), resources=RESOURCES)
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, resources: dict[str, tuple[str, bytes]]
) -> None:
    root = tmp_path_factory.mktemp("pages")
    folder = PagesFolder(root)
    given_ones = [Resource(url, *rest) for url, rest in resources.items()]
    path, count = folder.write(NAME, document(data, given_ones))
    assert (path, count) == (f"documents/{NAME}.html", len(resources))
    table = folder.resources(path)
    assert folder.document(path) == data and table.keys() == resources.keys()
    assert sorted((folder.resource(url, entry) for url, entry in table.items()), key=lambda r: r.url) == sorted(
        given_ones, key=lambda resource: resource.url
    )
    kept = [file for file in (root / "resources").rglob("*") if file.is_file()]
    assert len(kept) == len({resource.data for resource in given_ones})


def test_a_document_that_stays_in_its_source(tmp_path: Path) -> None:
    assert PagesFolder(tmp_path).write(NAME, document(None)) == ("", 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "documents/../../secret", "documents/link", "", "none"])
def test_nothing_from_outside(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "pages" / "documents").mkdir(parents=True)
    (tmp_path / "pages" / "documents" / "link").symlink_to(tmp_path / "secret")
    folder = PagesFolder(tmp_path / "pages")
    with pytest.raises(InputError, match=r"wanted a (file of this folder|SHA-256)"):
        folder.document(path)
    with pytest.raises(InputError, match=r"wanted a (file of this folder|SHA-256)"):
        folder.resource("https://h.example/", {"sha256": f"../../{path or 'secret'}", "media_type": ""})


def test_threads_that_write_one_resource(tmp_path: Path) -> None:
    folder = PagesFolder(tmp_path)
    data = b"x" * 100_000

    def write(number: int) -> None:
        folder.write(f"{number:016x}", document(resources=[Resource("https://h.example/x", "image/png", data)]))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (kept,) = [file for file in (tmp_path / "resources").rglob("*") if file.is_file()]
    assert kept.read_bytes() == data and len(list((tmp_path / "documents").iterdir())) == 16
