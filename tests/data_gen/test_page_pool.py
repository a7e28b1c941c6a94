"""Whose fault it is that a page can't be made into tiles."""

import pytest

from tilewright.configs.errors import InputError
from tilewright.data_gen.page_pool import ODD, _odd
from tilewright.data_gen.records import Page

PAGE = Page("0" * 16, "https://example.org/", "T", "p.html", "html_folder")


def test_an_odd_number_fails_its_page_and_what_the_user_can_mend_stops_the_stage() -> None:
    assert str(_odd(PAGE, ValueError("nan"))) == ("https://example.org/: can't be made into tiles (ValueError('nan'))")
    missing = InputError("wanted an extra")
    assert isinstance(missing, ODD)
    with pytest.raises(InputError, match="wanted an extra"):
        _odd(PAGE, missing)
