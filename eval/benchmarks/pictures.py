"""Query pictures of a benchmark: found, checked, and kept beside its questions under a digest of their bytes."""

import hashlib
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import decode_image

FOLDER = "images"
MISSING, BROKEN = "picture_missing", "picture_broken"
_ENDINGS = ("", ".jpg", ".jpeg", ".png", ".webp")


class Pictures:
    """Keeps pictures below ``out``; ``source``: the folder where those lie that a row names."""

    def __init__(self, out: Path, source: Path | None) -> None:
        self._out, self._source = out, source

    def keep(self, picture: bytes | tuple[str, ...]) -> str:
        """Path of the kept picture, relative to ``out``. Of several names the first that is there counts.

        Raises LookupError(MISSING) or LookupError(BROKEN); InputError if a row names pictures and no folder was given.
        """
        data = picture if isinstance(picture, bytes) else self._found(picture)
        try:
            decode_image(data)
        except InputError as error:
            raise LookupError(BROKEN) from error
        name = f"{FOLDER}/{hashlib.sha256(data).hexdigest()}"
        path = self._out / name
        if not path.is_file():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        return name

    def _found(self, names: tuple[str, ...]) -> bytes:
        if not names:
            raise LookupError(MISSING)
        if self._source is None:
            raise InputError(f"images: wanted the folder of the pictures that rows name (such as {names[0]!r})")
        paths = (_path_in(self._source.resolve(), name) for name in names)
        found = next((path for path in paths if path is not None), None)
        if found is None:
            raise LookupError(MISSING)
        return found.read_bytes()


def _path_in(base: Path, name: str) -> Path | None:
    """The file of that name or id, inside ``base`` only; also as Google Landmarks v2 is laid out: a/b/c/abc..."""
    spread = ["/".join([*name[:3], name])] if len(name) > 3 and name.isalnum() else []
    for candidate in (f"{stem}{ending}" for stem in (name, *spread) for ending in _ENDINGS):
        if "\0" in candidate or len(candidate) > 1000:
            continue
        path = (base / candidate).resolve()
        if path.is_relative_to(base) and path.is_file():
            return path
    return None
