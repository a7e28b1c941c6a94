"""One spelling per page address, and the page id made of it."""

import hashlib
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, unquote_to_bytes, urlsplit, urlunsplit

from tilewright.configs.errors import InputError

PAGE_ID = re.compile(r"[0-9a-f]{16}")
_DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21}


@dataclass(frozen=True)
class _MediaWiki:
    """MediaWiki hosts that spell titles by one rule ($wgCapitalLinks)."""

    hosts: re.Pattern[str]
    first_letter_upper: bool


_PROFILES = (  # the first that matches a host holds
    _MediaWiki(re.compile(r"(?:[a-z0-9-]+\.)*wiktionary\.org|jbo\.(?:m\.)*wikipedia\.org"), first_letter_upper=False),
    _MediaWiki(
        re.compile(
            r"(?:[a-z0-9-]+\.)*(?:wikipedia|wikimedia|wikiquote|wikibooks|wikisource|wikinews|wikiversity|wikivoyage"
            r"|wikidata|mediawiki|wikifunctions)\.org"
        ),
        first_letter_upper=True,
    ),
)
_MOBILE = re.compile(r"(?:^|(?<=\.))(?:m\.)+(?=[a-z]+\.org$)")
_WIKI_PATH = "/wiki/"
_CONTROLS = "".join(map(chr, range(0x20))) + "\x7f"
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PERCENT_RUN = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


def canonical_url(url: str) -> str:
    """``url`` in its one spelling; ``canonical_url(canonical_url(u)) == canonical_url(u)``.

    Scheme and host lower case, default port and fragment dropped, path percent-decoded except ``%23 %3F %2F %25``.
    On MediaWiki hosts also: underscores for spaces, no mobile host (``en.m.``), first letter of the title upper case
    (but Wiktionary keeps ``apple`` and ``Apple`` apart).
    Query strings, sub-pages and namespaces stay distinct. Raises InputError for anything without scheme and place.
    """
    try:
        parts = urlsplit(url.strip(_CONTROLS + " "))
        port = parts.port
    except ValueError as error:
        raise InputError(f"URL {url!r}: {error}") from error
    scheme = parts.scheme.lower()
    if not scheme or not (parts.hostname or (scheme == "file" and parts.path)):
        raise InputError(f"URL {url!r}: wanted an absolute one such as https://host/path")
    host = _canonical_host(parts)
    path = _decode(parts.path)
    profile = next((profile for profile in _PROFILES if profile.hosts.fullmatch(host)), None)
    if profile is not None:
        host = _MOBILE.sub("", host)
        path = _canonical_title_path(path, profile)
    place = host if port is None or port == _DEFAULT_PORTS.get(scheme) else f"{host}:{port}"
    userinfo = parts.netloc.rpartition("@")[0]
    if userinfo:
        place = f"{userinfo}@{place}"
    address = urlunsplit((scheme, place, path or ("/" if host else ""), _escape_controls(parts.query), ""))
    bare = address.rstrip(" ")  # a blank at the very end would be lost when the address is read again
    return bare + "%20" * (len(address) - len(bare))


def page_id(url: str) -> str:
    """16 hex characters of SHA-256 of the canonical URL."""
    return hashlib.sha256(canonical_url(url).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def title_url(base_url: str, title: str) -> str:
    """Address of the MediaWiki page ``title`` below ``base_url`` (which ends in ``/wiki/``), canonical."""
    return canonical_url(base_url + quote(title.strip().replace(" ", "_"), safe="/:@!$&'()*+,;=~"))


def _canonical_host(parts: SplitResult) -> str:
    host = (parts.hostname or "").lower()
    return f"[{host}]" if ":" in host else host


def _decode(path: str) -> str:
    """Percent-decode valid UTF-8 runs; ``# ? / %``, control characters and what isn't UTF-8 stay escaped."""
    return _PERCENT_RUN.sub(_decode_run, _LONE_PERCENT.sub("%25", _escape_controls(path)))


def _decode_run(match: re.Match[str]) -> str:
    text = match.group()
    kept = re.split(r"(%(?:23|3[Ff]|2[Ff]|25))", text)
    return "".join(part.upper() if index % 2 else _decode_plain(part) for index, part in enumerate(kept))


def _decode_plain(run: str) -> str:
    try:
        decoded = unquote_to_bytes(run).decode("utf-8")
    except UnicodeDecodeError:
        return run.upper()
    return _escape_controls(decoded)


def _escape_controls(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _CONTROLS else char for char in text)


def _canonical_title_path(path: str, profile: _MediaWiki) -> str:
    path = path.replace(" ", "_")
    if not path.startswith(_WIKI_PATH):
        return path
    title = re.sub("_+", "_", path.removeprefix(_WIKI_PATH)).strip("_")
    if not profile.first_letter_upper:
        return _WIKI_PATH + title
    first = title[:1].upper()
    return _WIKI_PATH + (first if len(first) == 1 else title[:1]) + title[1:]
