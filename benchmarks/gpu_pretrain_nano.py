"""Pretrains nano on one GPU on windows composed there from a glyph atlas; writes its readers, prints one JSON line.

    python benchmarks/gpu_pretrain_nano.py --out FOLDER [--minutes 8] [--words FOLDER] [--held-out TILES]
    python benchmarks/gpu_pretrain_nano.py --out FOLDER --device cpu --quick --steps 3      (a check that it runs)

Nothing is rendered: letters of the installed fonts are drawn once by Pillow, then every batch is set, painted and
labelled on the device. FOLDER/nano-full sees windows as they are, FOLDER/nano goes on from it with half of them
compressed, as configs/train/pretrain_nano/nano.yaml. --minutes counts from the start of the program to the readers
written; rates follow the time spent, or the steps where --steps (of each phase) fixes them: then a seed decides all on
one kind of device. --words: a folder of word lists (plain or gzip), of which one word in ten is held out; without it
words are made of random syllables. --fonts: a folder of .ttf and .otf files.

- ``accuracy``: characters read right in their very cell, on composed windows with words that were held out, of the same
  fonts, by compression (1; 4 is half the sides, enlarged back). The last training batches' is ``train_accuracy``.
- ``held_out``: with --held-out, tiles that render_tiles made with ``characters: true``: figures of
  ``train.nano_scores.score_store`` on the CPU, after the readers are written and outside the minutes.

What composing leaves out: kerning, ligatures, line breaks within a word, letters beyond the atlas's alphabet, pictures.
Trigram weights of queries are inverse document frequencies in made-up documents of the same words.
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu_pretrain_parts.atlas import ASCII, BEYOND_ASCII, FAMILIES, Family, find_families, make_atlas
from gpu_pretrain_parts.text import Dice, make_bank, make_tokens, split_words
from gpu_pretrain_parts.training import Phase, Scale, Source, Training, now

from tilewright.configs.errors import InputError
from tilewright.data_gen.characters import CharacterTable
from tilewright.data_gen.reading_words import ReadingWords, read_word_lists
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.nano import VISION, NanoConfig, NanoModel
from tilewright.train.nano_characters import inverse_document_frequency
from tilewright.train.nano_folder import write_nano
from tilewright.train.nano_scores import score_store
from tilewright.train.pretrained import load_pretrained, read_config

ALPHABET = ASCII + BEYOND_ASCII
RESERVE_S = 15.0  # of the minutes, to measure and to write
COMPRESSIONS = (1.0, 4.0)
DOCUMENT_TOKENS = 250
PHASES = (
    Phase("nano-full", 0.5, 2e-3, 300, (1.0,)),
    Phase("nano", 0.5, 1.5e-3, 200, (1.0, 1.0, 1.0, 2.0, 4.0, 4.0)),
)
_QUICK_VISION = {"depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 1, "out_hidden_size": 64}
FULL = Scale(tuple(range(11, 31)), len(FAMILIES), 200_000, 2_000, 192, 18, 30, 8, {})
QUICK = Scale((12, 15, 20), 1, 2_000, 4, 6, 6, 16, 1, _QUICK_VISION)


def composing_speed(source: Source, device: torch.device, batches: int) -> float:
    """Windows a second that are composed if nothing is learned from them."""
    source.batch(PHASES[-1].compressions)
    started = now(device)
    for _ in range(batches):
        source.batch(PHASES[-1].compressions)
    return round(batches * source.scale.windows / (now(device) - started), 1)


def make_model(scale: Scale, tokens: list[str], seed: int) -> NanoModel:
    """Untaught, with the trigram weights of documents made of ``tokens``."""
    torch.manual_seed(seed)
    model = NanoModel(NanoConfig(vision_config=VISION | scale.vision))
    starts = np.random.default_rng(seed).integers(0, len(tokens) - DOCUMENT_TOKENS, scale.documents)
    documents = (" ".join(tokens[start : start + DOCUMENT_TOKENS]) for start in starts)
    model.binding.weights.copy_(torch.from_numpy(inverse_document_frequency(documents)))
    return model


def held_out_figures(tiles: Path, reader: Path, most: int) -> dict[str, float]:
    """score_store's figures at each of COMPRESSIONS, of the written reader on the CPU."""
    model = load_pretrained(NanoModel, read_config(NanoConfig, reader), reader, torch.float32)
    assert isinstance(model, NanoModel)
    model.eval()
    store = TileStore.open(tiles)
    table = CharacterTable.open(tiles, store)
    chosen = np.linspace(0, len(store) - 1, min(most, len(store))).astype(int).tolist()
    return {
        f"{name}@{compression:g}": round(value, 4)
        for compression in COMPRESSIONS
        for name, value in score_store(model, store, table, chosen, compression).figures().items()
    }


def pretrain(options: argparse.Namespace, scale: Scale, families: list[Family], started: float) -> dict[str, Any]:
    """All phases; the readers are written to ``options.out``."""
    device = torch.device(options.device)
    atlas = make_atlas(families, scale.sizes_px, ALPHABET)
    words = ReadingWords((), ()) if options.words is None else read_word_lists(options.words, ["**/*"])
    learned, kept_back = split_words(words)
    banks = (
        make_tokens(learned, scale.tokens, ALPHABET, options.seed),
        make_tokens(kept_back, scale.tokens // 10, ALPHABET, options.seed + 1),
    )
    model = make_model(scale, banks[0], options.seed)
    prepared_s = time.perf_counter() - started
    atlas = atlas.to(device)
    source, held_out = (
        Source(Dice(device, options.seed + number), atlas, make_bank(tokens, ALPHABET, device), scale)
        for number, tokens in enumerate(banks)
    )
    found: dict[str, Any] = {
        "faces": len(atlas.offsets),
        "families": [family.name for family in families],
        "atlas_mib": round(atlas.ink.numel() / 2**20, 1),
        "prepared_s": round(prepared_s, 1),
        "composed_windows_per_s": composing_speed(source, device, 1 if options.quick else 20),
        "parameters": sum(weight.numel() for weight in model.parameters()),
    }
    training = Training(model.to(device), device, options.seed)
    begun, end = time.perf_counter(), started + 60 * options.minutes - RESERVE_S
    if options.steps is None and end <= begun:
        raise InputError(
            f"--minutes: wanted more than {(begun - started + RESERVE_S) / 60:.1f}, found {options.minutes}"
        )
    passed = 0.0
    for phase in PHASES:
        first = begun + passed * (end - begun)
        passed += phase.share
        last = begun + passed * (end - begun)

        def done(steps: int, first: float = first, last: float = last) -> float:
            return (time.perf_counter() - first) / (last - first) if options.steps is None else steps / options.steps

        figures = training.phase(phase, source, done)
        figures["accuracy"] = {f"@{how:g}": training.accuracy(held_out, how) for how in COMPRESSIONS}
        card = f"Pretrained by benchmarks/gpu_pretrain_nano.py on composed windows: {json.dumps(figures)}"
        write_nano(model, options.out / phase.name, name=phase.name, card=card)
        found[phase.name] = figures
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--windows", type=int, help="of a batch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--fonts", type=Path, default=Path("/usr/share/fonts"))
    parser.add_argument("--words", type=Path)
    parser.add_argument("--held-out", type=Path)
    parser.add_argument("--held-out-tiles", type=int, default=48)
    options = parser.parse_args()
    started, scale = time.perf_counter(), QUICK if options.quick else FULL
    if options.windows is not None:
        scale = dataclasses.replace(scale, windows=options.windows)
    families = find_families(options.fonts, FAMILIES, ALPHABET)[: scale.families]
    found = pretrain(options, scale, families, started)
    found["seconds"] = round(time.perf_counter() - started, 1)
    if options.held_out is not None:
        found["held_out"] = {
            phase.name: held_out_figures(options.held_out, options.out / phase.name, options.held_out_tiles)
            for phase in PHASES
        }
    cuda = options.device.startswith("cuda")
    about = {
        "benchmark": "gpu_pretrain_nano",
        "device": torch.cuda.get_device_name(options.device) if cuda else "cpu",
        "torch": torch.__version__,
        "quick": options.quick and "a check that it runs: these figures mean nothing",
        "batch_windows": scale.windows,
        "words": "lists" if options.words else "syllables",
    }
    print(json.dumps(about | found))


if __name__ == "__main__":
    main()
