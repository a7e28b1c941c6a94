"""A process of its own that reads PDFs and pictures: native decoders of foreign files crash or hang in here alone.

Speaks to paged_documents.py over pipes. A message is its length (8 bytes), JSON, and pictures' bytes behind it, whose
lengths stand in ``blobs``. Requests: {"open": path, limits} and {"page": number, "boxes": [[y_px, height_px]],
"layer": whether its words are wanted, encoding}.
"""

import contextlib
import json
import os
import resource
import signal
import struct
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.images import decode_image, encode_image, image_sha256
from tilewright.data_gen.pdf_document import PdfDocument
from tilewright.data_gen.picture_document import PictureDocument

MAX_MEMORY_BYTES = 8 << 30  # of the address space: a file that asks for more fails by itself
PARENT_CHECK_S = 1.0


def write_message(file: IO[bytes], message: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """Send ``message``, then ``blobs``."""
    data = json.dumps(message | {"blobs": [len(blob) for blob in blobs]}).encode()
    file.write(struct.pack("<Q", len(data)) + data)
    for blob in blobs:
        file.write(blob)
    file.flush()


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer one JSON line after the other until the pipe is closed; a failure is answered by {"error": reason}."""
    document: PdfDocument | PictureDocument | None = None
    for line in requests:
        request = json.loads(line)
        blobs: list[bytes] = []
        try:
            if "open" in request:
                if document is not None:
                    document.close()
                document = None
                document = _open(Path(request["open"]), request)
                revised = document.revised if isinstance(document, PdfDocument) else ""
                answer = {"sizes_px": document.sizes_px, "title": document.title, "revised": revised}
            else:
                assert document is not None, "a page of no document"
                answer, blobs = _draw(document, request)
                answer |= document.layer(request["page"]) if request["layer"] else {}
        except (ItemError, InputError, MemoryError) as error:
            answer = {"error": str(error) or "out of memory"}
        except Exception as error:  # noqa: BLE001  # decoders raise anything; the stage counts it under the file's name
            answer = {"error": f"{type(error).__name__}: {error}"}
        write_message(answers, answer, blobs)


def _open(path: Path, limits: dict[str, int]) -> PdfDocument | PictureDocument:
    if path.suffix.lower() == ".pdf":
        return PdfDocument(path, limits["width_px"], limits["max_pages"])
    return PictureDocument(path, limits["width_px"], limits["max_pixels"], limits["max_pages"])


def _draw(document: PdfDocument | PictureDocument, request: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """The tiles ``boxes`` [(y_px, height_px)] of a page, over its whole width: their hashes, and them encoded."""
    tiles = [document.rows(request["page"], y_px, height_px) for y_px, height_px in request["boxes"]]
    encoded = [encode_image(tile, request["image_format"], request["jpeg_quality"]) for tile in tiles]
    if request["image_format"] == "jpeg":  # a hash is that of what a reader will see
        tiles = [decode_image(data) for data in encoded]
    return {"image_sha256": [image_sha256(tile) for tile in tiles]}, encoded


def _end_with_parent(parent: int) -> None:
    """A worker that hangs in native code sees no closed pipe: it ends when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)
    os._exit(1)


def main() -> None:
    """``python -m tilewright.data_gen.document_worker PARENT_PID``: requests on stdin, answers on stdout."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is its parent's to answer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print mustn't stand between answers
    for limit, value in ((resource.RLIMIT_AS, MAX_MEMORY_BYTES), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(ValueError, OSError):  # macOS has no limit of address space
            resource.setrlimit(limit, (value, value))
    threading.Thread(target=_end_with_parent, args=(int(sys.argv[1]),), daemon=True).start()
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
