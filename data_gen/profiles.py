"""How pages of one kind of site are shown: what is content, what goes, what is opened. Plain CSS selectors."""

from dataclasses import dataclass
from typing import Literal

ProfileName = Literal["none", "mediawiki", "news", "docs"]


@dataclass(frozen=True)
class Profile:
    """What of a page is rendered.

    ``content``: selectors in order of preference; the first that shows anything is kept and all beside it removed
    (none given or found: the whole body). ``remove``: what goes besides. ``reveal``: what is shown though it starts
    collapsed (``<details>`` always is). ``margin_px``: white space around the content, None leaves the page's own.
    ``javascript``: whether the page's own scripts run. ``settle_s``: with scripts, how long the layout must stand still
    before it is measured.
    """

    content: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    reveal: tuple[str, ...] = ()
    margin_px: int | None = None
    javascript: bool = False
    settle_s: float = 0.5

    def __post_init__(self) -> None:
        if (self.margin_px is not None and self.margin_px < 0) or not 0 <= self.settle_s <= 60:
            raise ValueError(
                f"margin_px and settle_s: wanted 0 or more (at most 60 s), found {self.margin_px}, {self.settle_s}"
            )


_CONSENT = (
    "[id*='cookie-banner' i]",
    "[class*='cookie-banner' i]",
    "[id*='cookie-consent' i]",
    "[class*='cookie-consent' i]",
    "[class*='consent-banner' i]",
    "#onetrust-consent-sdk",
    "#CybotCookiebotDialog",
    "[aria-label*='cookie' i][role=dialog]",
)
_FRAME = (
    "nav",
    "[role=navigation]",
    "[role=banner]",
    "[role=contentinfo]",
    "[role=search]",
    "body > header",
    "body > footer",
    *_CONSENT,
)
PROFILES: dict[str, Profile] = {
    "none": Profile(),
    "mediawiki": Profile(
        content=("#content", "main#content", ".mw-body", "#mw-content-text", "[role=main]"),
        remove=(
            *_FRAME,
            ".mw-editsection",
            ".mw-jump-link",
            ".mw-indicators",
            ".navbox",
            ".vertical-navbox",
            ".sistersitebox",
            ".ambox",
            ".noprint",
            "#toc",
            ".toc",
            "#catlinks",
            "#siteNotice",
            "#siteSub",
            "#contentSub",
            "#jump-to-nav",
            ".printfooter",
            ".vector-page-toolbar",
            "#p-lang-btn",
            "#mw-head",
            "#mw-panel",
            "#footer",
        ),
        reveal=(
            ".mw-collapsed > *",
            ".mw-collapsed tr",
            ".mw-collapsible-content",
            ".collapsible-block",
            ".section-collapsible",
        ),
        margin_px=16,
    ),
    "news": Profile(
        content=("article", "[itemprop=articleBody]", "main", "[role=main]"),
        remove=(
            *_FRAME,
            "aside",
            "form",
            "[class*='related' i]",
            "[class*='newsletter' i]",
            "[class*='share' i]",
            "[class*='promo' i]",
            "[class*='advert' i]",
            "[id*='advert' i]",
            "[class*='comments' i]",
        ),
        reveal=("[class*='read-more' i]",),
        margin_px=16,
    ),
    "docs": Profile(
        content=("main", "[role=main]", "article", "#content", ".document", ".body", ".content"),
        remove=(
            *_FRAME,
            ".sphinxsidebar",
            ".headerlink",
            ".toctree-wrapper",
            ".breadcrumbs",
            ".edit-page",
            ".editsection",
            ".t-navbar",
            "[class*='sidebar' i]",
            "[class*='pagination' i]",
            "[class*='edit-this-page' i]",
        ),
        reveal=("[role=tabpanel]",),
        margin_px=16,
    ),
}


def profile_of(value: str | Profile) -> Profile:
    """The built-in profile of that name, or the one given."""
    return PROFILES[value] if isinstance(value, str) else value
