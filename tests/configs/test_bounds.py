"""Numbers that make no sense are refused when a config is loaded, with key, wanted and found."""

from pathlib import Path
from typing import Any

import pytest

from tilewright.cli import find_stage
from tilewright.configs.load import ConfigError, find_config, load

NUMBERS: dict[str, dict[str, list[Any]]] = {
    "data_gen/make_queries": {
        "max_pairs_per_tile": [0, -1],
        "review_pairs": [-1],
        "shard": ["2/2"],
        "gates.min_page_height_px": [-1],
        "gates.first_share": [-0.1, 1.1, ".nan", ".inf", "1" + "0" * 400],
        "gates.min_words": [-1],
        "gates.min_text_density": [-1, ".nan"],
        "gates.min_ink": [-0.1, 2, ".nan"],
        "gates.near_duplicate_bits": [-1, 32],
    },
    "data_gen/self_contained": {
        "per_call": [0, 501],
        "review_pairs": [-1],
        "shard": ["3/3", "x"],
        "max_error_share": [2],
        "llm.concurrency": [0],
        "llm.temperature": [-1, ".nan"],
        "llm.max_tokens": [0],
        "llm.image.jpeg_quality": [0, 101],
        "llm.budget.max_calls": [-1],
    },
    "data_gen/answerable": {"review_pairs": [-1], "shard": ["1/1"], "max_error_share": [-0.1]},
    "data_gen/natural": {"min_score": [0, 6], "shard": ["-1/2"]},
    "data_gen/text_pairs": {
        "min_query_words": [0],
        "removal_probability": [-0.1, 1.1],
        "review_pairs": [-1],
        "shard": ["2/2"],
    },
    "data_gen/filter_pairs": {
        "min_key_terms": [-1],
        "max_query_words": [0],
        "min_answer_characters": [-1],
        "max_answer_words": [0],
    },
    "data_gen/split_pairs": {"max_similarity": [0, 1.1, ".nan"], "review_pairs": [-1]},
    "mining/embed_tiles": {
        "block_tiles": [0],
        "window_blocks": [0],
        "batch_tokens": [0],
        "shard": ["2/2"],
        "shard_bytes": [0],
        "workers": [0],
        "ray.actors": [0],
        "ray.cpus": [-1, ".nan"],
        "ray.gpus": [-1],
    },
    "mining/mine_negatives": {
        "negatives": [0],
        "block": [0],
        "top_k": [0],
        "first_rank": [0],
        "per_page": [0],
        "round": [0],
        "width": [0],
        "shard": ["2/2"],
        "review_pairs": [-1],
        "max_error_share": [-0.1, 1.5],
    },
    "mining/mini_datastore": {"questions": [0], "top_n": [-1], "block": [0]},
    "mining/make_reader_data": {
        "absent_share": [-0.1, 1.1],
        "block": [0],
        "depth": [0],
        "max_train": [0],
        "max_validation": [-1],
        "absent_answer": ["  "],
    },
    "eval/evaluate": {
        "resamples": [0],
        "confidence": [0, 1, -0.5, ".nan"],
        "max_error_share": [-0.1, 2],
        "threads": [0],
        "shown_hits": [0],
        "shown_questions": [-1],
        "ks": ["[]", "[0]", "[3, 1]"],
    },
}


@pytest.mark.parametrize(
    ("stage", "key", "value"),
    [(stage, key, value) for stage, keys in NUMBERS.items() for key, values in keys.items() for value in values],
)
def test_numbers_out_of_bounds_are_named(stage: str, key: str, value: Any) -> None:
    path = find_config(Path("configs") / stage / "smoke.yaml")
    config = find_stage(stage.rpartition("/")[2]).config
    load(path, config)
    with pytest.raises(ConfigError, match=rf"{key.rpartition('.')[2]}.*wanted.*found"):
        load(path, config, [f"{key}={value}"])
