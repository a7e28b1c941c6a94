"""A profile's own selectors are checked by the browser before any page is rendered."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.profiles import PROFILES, Profile
from tilewright.data_gen.render_tiles import STAGE, Config

pytestmark = pytest.mark.browser
WritePages = Callable[[Path, Mapping[str, str]], Path]


@pytest.mark.parametrize("name", ["content", "remove", "reveal"])
def test_a_selector_that_is_none_is_refused_at_the_start(tmp_path: Path, write_pages: WritePages, name: str) -> None:
    pages = write_pages(tmp_path / "pages", {"a": "text"})
    profile = Profile(**{name: ("p", "div[")})
    with pytest.raises(InputError, match=rf"profile: {name}: wanted a CSS selector, found 'div\['"):
        run_stage(
            STAGE, Config(pages=pages, out=tmp_path / "t", max_tiles=None, max_tiles_per_page=None, profile=profile)
        )


def test_built_in_selectors_are_understood(tmp_path: Path, write_pages: WritePages) -> None:
    pages = write_pages(tmp_path / "pages", {"a": "text"})
    for name, built_in in PROFILES.items():
        own = Profile(content=built_in.content, remove=(*built_in.remove, "#no"), reveal=built_in.reveal)
        out = tmp_path / name
        run_stage(STAGE, Config(pages=pages, out=out, max_tiles=None, max_tiles_per_page=None, profile=own))
