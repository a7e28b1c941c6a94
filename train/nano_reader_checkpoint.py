"""A nano reader on disk, and at work: a nano that reads (``tower/``) and the scorer that points at what it read."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from tilewright.configs.errors import InputError
from tilewright.train.nano_reader import SpanScorer, best_span, shown, text_of
from tilewright.train.nano_reader_question import asked
from tilewright.train.nano_reader_readings import Readings
from tilewright.train.reader_prompt import CANNOT_ANSWER

TOWER, SCORER, SETTINGS = "tower", "scorer.safetensors", "nano_reader.json"
SCHEMA = 1  # raised when features or scores mean something else


@dataclass(frozen=True)
class Seen:
    """A picture to answer from: ``sha256`` names it before compression, ``shown`` gives it compressed."""

    sha256: str
    compression: float
    shown: Callable[[], Image.Image]


class NanoReader:
    """Answers from pictures. ``kept``: see ``Readings``."""

    def __init__(self, folder: Path, kept: Path | None = None, *, bfloat16: bool = False) -> None:
        self.scorer = load_scorer(folder)
        self.readings = Readings(folder / TOWER, kept, bfloat16=bfloat16)

    @torch.no_grad()
    def answer(self, question: str, pictures: Sequence[Seen]) -> str:
        """What the pictures show for an answer, as it was read, or CANNOT_ANSWER.

        Raises InputError if a picture is broken.
        """
        pages = [self.readings.page(one.sha256, one.compression, one.shown) for one in pictures]
        row = shown(asked(question), pages)
        span = best_span(self.scorer(row))
        return CANNOT_ANSWER if span is None else text_of(span, row.lines)


def save_scorer(scorer: SpanScorer, folder: Path) -> None:
    """Write all of a nano reader but its tower."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: value.contiguous() for name, value in scorer.state_dict().items()}, folder / SCORER)
    settings = {"schema": SCHEMA, "width": scorer.width}
    (folder / SETTINGS).write_text(json.dumps(settings) + "\n", encoding="utf-8")


def load_scorer(folder: Path) -> SpanScorer:
    """What ``save_scorer`` wrote. Raises InputError for anything else."""
    path = folder / SETTINGS
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        schema, width = settings["schema"], settings["width"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: wanted the settings of a nano reader, found none ({error!r})") from error
    if schema != SCHEMA or type(width) is not int or not 1 <= width <= 4096:
        raise InputError(f"{path}: wanted schema {SCHEMA} and a width from 1 to 4096, found {schema!r} and {width!r}")
    scorer = SpanScorer(width)
    try:
        scorer.load_state_dict(load_file(folder / SCORER))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise InputError(f"{folder / SCORER}: not the weights of such a scorer: {error}") from error
    scorer.eval()
    return scorer
