"""A self-contained HTML file for people: nothing is loaded, no text of a page is markup, only our own script runs."""

import base64
import hashlib
import io
from html import escape
from importlib import resources

from PIL import Image


def text(value: str) -> str:
    """``value`` as HTML text or attribute; control characters and halves of characters become U+FFFD."""
    shown = "".join(char if char >= " " or char in "\n\t" else "\ufffd" for char in value)
    return escape(shown.encode("utf-8", "replace").decode("utf-8"), quote=True)


def link(url: str, shown: str) -> str:
    """``shown`` as a link to ``url``; as mere text if that isn't http or https."""
    web = url.lower().startswith(("http://", "https://"))
    return f'<a href="{text(url)}" rel="noopener noreferrer">{text(shown)}</a>' if web else text(shown)


def webp_url(image: Image.Image, quality: int) -> str:
    """``image`` as a data URL."""
    encoded = io.BytesIO()
    image.save(encoded, "WEBP", quality=quality, method=4)
    return "data:image/webp;base64," + base64.b64encode(encoded.getvalue()).decode("ascii")


def document(title: str, body: str, *, name: str, script: bool = False) -> str:
    """The whole file. ``title`` is text, ``body`` markup; ``name``.css and, if wanted, ``name``.js lie in this package.

    The policy names style and script by their hashes, so nothing else is applied or run, whatever ``body`` holds.
    """
    style = f"\n{_packaged('html_page.css')}{_packaged(f'{name}.css')}"
    code = f"\n{_packaged(f'{name}.js')}" if script else ""
    policy = f"default-src 'none'; img-src data:; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    if code:
        policy += f"; script-src {_hash(code)}; require-trusted-types-for 'script'; trusted-types 'none'"
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        '<link rel="icon" href="data:,">',
        f"<title>{text(title)}</title>",
        f"<style>{style}</style>",
    ]
    end = f"\n<script>{code}</script>" if code else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n' + "\n".join(head) + f"\n</head>\n<body>\n{body}{end}\n</body>"
        "\n</html>\n"
    )


def _packaged(name: str) -> str:
    return resources.files("tilewright.data_gen").joinpath(name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
