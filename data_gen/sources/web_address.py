"""Web addresses spelled as a browser asks for them (WHATWG URL standard, the part about http and https)."""

import re
from contextlib import suppress
from urllib.parse import quote, unquote_to_bytes

WEB = {"http": 80, "https": 443}  # scheme -> default port
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_ADDRESS = re.compile(r"(https?)://([^/?]*)([^?]*)(\?.*)?")
_EDGES = "".join(map(chr, range(0x21)))
_INSIDE = re.compile(r"[\t\n\r]")
_SINGLE_DOT, _DOUBLE_DOT = re.compile(r"\.|%2e", re.IGNORECASE), re.compile(r"(?:\.|%2e){2}", re.IGNORECASE)
_FORBIDDEN_IN_HOST = re.compile(r"[\x00-\x20#%/:<>?@\[\\\]^|\x7f]")
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
_PATH_SAFE = "".join(set(_PRINTABLE) - set('"#<>?`{}^|'))
_QUERY_SAFE = "".join(set(_PRINTABLE) - set("\"#<>'"))


def web_address(base: str, reference: str) -> str:
    """``reference`` as found in the document at ``base`` ("": it must be absolute), absolute and without fragment.

    "" for what is no http or https address, for one with a user name or password, and for a reference to the
    document itself.
    """
    text = _INSIDE.sub("", reference.strip(_EDGES)).partition("#")[0]
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    if not text or (scheme and scheme not in WEB):
        return ""
    rest, mark, query = text[found.end() if found else 0 :].partition("?")
    rest, query = rest.replace("\\", "/"), mark + query
    parts = _ADDRESS.fullmatch(base)
    if scheme and not (parts is not None and scheme == parts[1] and not rest.startswith("//")):
        return _spelled(scheme, rest.lstrip("/"), query)
    if parts is None:
        return ""
    if rest.startswith("//"):
        return _spelled(parts[1], rest.lstrip("/"), query)
    if not rest:
        return _spelled(parts[1], parts[2] + parts[3], query)
    folder = "" if rest.startswith("/") else parts[3].rpartition("/")[0] + "/"
    return _spelled(parts[1], parts[2] + folder + rest, query)


def _spelled(scheme: str, place: str, query: str) -> str:
    """``place`` is authority and path; "" if there is no such host."""
    authority, slash, path = place.partition("/")
    host = _host(scheme, authority)
    if not host:
        return ""
    path = quote(_without_dots(slash + path) or "/", safe=_PATH_SAFE, errors="replace")
    query = "?" + quote(query[1:], safe=_QUERY_SAFE, errors="replace") if query else ""
    return f"{scheme}://{host}{path}{query}"


def _host(scheme: str, authority: str) -> str:
    """Host and port; "" if they can't be one, or if a user name stands before them."""
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:@\[\]]*)(?::([0-9]*))?", authority)
    if found is None:
        return ""
    port = int(found[2][-6:]) if found[2] else WEB[scheme]
    host = found[1].lower() if found[1].startswith("[") else _domain(found[1])
    if not host or not 0 <= port <= 65535 or len(found[2] or "") > 20:
        return ""
    return host if port == WEB[scheme] else f"{host}:{port}"


def _domain(host: str) -> str:
    name = unquote_to_bytes(host.encode("utf-8", "replace")).decode("utf-8", "replace")
    if not name.isascii():
        import idna

        with suppress(idna.IDNAError):
            name = idna.encode(name, uts46=True).decode("ascii")
    name = name.lower()
    return "" if _FORBIDDEN_IN_HOST.search(name) or not name.isascii() else name


def _without_dots(path: str) -> str:
    """``.`` and ``..`` resolved, also when they are percent-encoded; empty parts stay."""
    kept: list[str] = []
    parts = path.split("/")[1:]
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if _DOUBLE_DOT.fullmatch(part):
            del kept[-1:]
            kept += [""] if last else []
        elif _SINGLE_DOT.fullmatch(part):
            kept += [""] if last else []
        else:
            kept.append(part)
    return "".join(f"/{part}" for part in kept)
