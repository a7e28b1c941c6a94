"""The files of split_pairs as training, mining and evaluation read them."""

from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.data_gen.pair_files import read_pair_file
from tilewright.data_gen.records import QAPair

PAGES_FILE = "pages.json"


def read_pairs(path: Path, *, may_be_empty: bool = False) -> list[QAPair]:
    """The pairs of a JSONL file. Raises InputError for an empty file and for what read_pair_file refuses."""
    pairs = read_pair_file(path)
    if not pairs and not may_be_empty:
        raise InputError(f"{path}: wanted at least one question-answer pair, found an empty file")
    return pairs
