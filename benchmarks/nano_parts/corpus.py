"""The default Wikipedia corpus with the places of its characters, and questions on it."""

from dataclasses import dataclass
from pathlib import Path

from tilewright.cli import find_stage
from tilewright.configs.load import load
from tilewright.configs.stage import run_stage
from tilewright.data_gen.characters import CharacterTable
from tilewright.data_gen.records import QAPair, read_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.rare_words import rare_word_queries

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


@dataclass(frozen=True)
class Corpus:
    """Tiles, their characters, and {name of a set of queries: queries, each with its one right tile}."""

    store: TileStore
    table: CharacterTable
    queries: dict[str, list[QAPair]]


def make_corpus(runs: Path, max_tiles: int | None, seed: int) -> Corpus:
    """Pages, tiles and questions of the whole corpus (or of ``max_tiles``), made unless they are there.

    Pages lie in ``runs``/full/pages, as configs/full.yaml makes them; see ``place`` for the rest.
    """
    pages, own = runs / "full" / "pages", place(runs, max_tiles)
    tiles = own / "held_out"
    _run("data_gen/make_pages/full.yaml", pages)
    rendering = [f"pages={pages}", "characters=true", f"max_tiles={'null' if max_tiles is None else max_tiles}"]
    _run("data_gen/render_tiles/full.yaml", tiles, *rendering)
    _run("data_gen/make_queries/quickstart.yaml", own / "queries", f"tiles={tiles}")
    _run("data_gen/filter_pairs/quickstart.yaml", own / "filtered", f"pairs={own / 'queries'}", f"tiles={tiles}")
    store = TileStore.open(tiles)
    queries = {
        "rare_words": rare_word_queries(store.iterate_light(), seed=seed),
        "questions": read_jsonl(own / "filtered" / "pairs.jsonl", QAPair, unique="query_id"),
    }
    return Corpus(store, CharacterTable.open(tiles, store), queries)


def place(runs: Path, max_tiles: int | None) -> Path:
    """Where this benchmark's files lie in a folder of runs; those of a sample apart."""
    return runs / ("nano" if max_tiles is None else f"nano_{max_tiles}")


def _run(config: str, out: Path, *overrides: str) -> None:
    stage = find_stage(Path(config).parts[1])
    run_stage(stage, load(CONFIGS / config, stage.config, [f"out={out}", *overrides]))
