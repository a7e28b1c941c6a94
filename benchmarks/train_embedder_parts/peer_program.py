"""Trains with a peer and prints the seconds of its steps. Runs in the peer's own interpreter, as a script.

    python peer_program.py PEER MODEL PAIRS BATCH CHUNK STEPS [--linear] [--workers N]

PEER: sentence-transformers or colpali-engine. Nothing of ours is used but, with --linear, the linear patch embedding.
Settings are those of their own examples: sentence-transformers' training_visual_document_retrieval.py (cached
multiple-negatives loss, no workers), colpali-engine's scripts/configs/qwen2/train_biqwen25_model.py and
qwen3/train_colqwen3_model.py (bi-encoder loss, gradient checkpointing, 2 workers); both train all weights.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import TrainerCallback

QUERY = "Retrieve images or text relevant to the user's query."
TILE = "Represent the user's input."


class StepTimes(TrainerCallback):  # type: ignore[misc]
    """When each step ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.ends.append(time.perf_counter())

    def seconds(self) -> list[float]:
        return [round(end - start, 4) for start, end in zip(self.ends, self.ends[1:], strict=False)]


def read_pairs(path: Path, count: int) -> list[dict[str, str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(lines[number % len(lines)]) for number in range(count)]


def linearised(model: Any, wanted: bool) -> None:
    """Put our linear patch embedding into a peer's model."""
    if wanted:
        from tilewright.train.linear_patch import linearise_patch_embedding

        assert linearise_patch_embedding(model) == 1


def sentence_transformers(options: argparse.Namespace, out: str) -> tuple[list[float], float]:
    """(seconds of steps, tokens of a pair); images are decoded by `datasets` as they are read."""
    from datasets import Dataset
    from datasets import Image as ImageColumn
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from sentence_transformers import SentenceTransformerTrainingArguments as Arguments
    from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from sentence_transformers.sentence_transformer.training_args import BatchSamplers

    transformer = Transformer(str(options.model), processing_kwargs={"chat_template": {"add_generation_prompt": True}})
    width = transformer.get_embedding_dimension()
    model = SentenceTransformer(modules=[transformer, Pooling(width, "lasttoken"), Normalize()], device="cpu")
    linearised(model, options.linear)
    pairs = read_pairs(options.pairs, options.batch * options.steps)
    columns = {name: [pair[name] for pair in pairs] for name in ("query", "image")}
    dataset = Dataset.from_dict(columns).cast_column("image", ImageColumn())
    times = StepTimes()
    arguments = Arguments(
        output_dir=out,
        num_train_epochs=1,
        per_device_train_batch_size=options.batch,
        learning_rate=2e-5,
        warmup_ratio=0.1,
        batch_sampler=BatchSamplers.NO_DUPLICATES,
        prompts={"query": QUERY, "image": TILE},
        dataloader_num_workers=options.workers or 0,
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = SentenceTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset=dataset,
        loss=CachedMultipleNegativesRankingLoss(model, mini_batch_size=options.chunk),
        callbacks=[times],
    )
    trainer.train()
    shown = Image.open(pairs[0]["image"]).convert("RGB")
    sides = (model.preprocess([pairs[0]["query"]], prompt=QUERY), model.preprocess([shown], prompt=TILE))
    return times.seconds(), float(sum(side["input_ids"].shape[1] for side in sides))


def colpali_engine(options: argparse.Namespace, out: str) -> tuple[list[float], float]:
    """(seconds of steps, tokens of a pair); its trainer has no GradCache, so the whole batch has its graph at once."""
    from colpali_engine.collators import VisualRetrieverCollator
    from colpali_engine.data.dataset import ColPaliEngineDataset, Corpus
    from colpali_engine.loss.bi_encoder_losses import BiEncoderLoss
    from colpali_engine.models import BiQwen3, BiQwen3Processor
    from colpali_engine.trainer.contrastive_trainer import ContrastiveTrainer
    from transformers import TrainingArguments

    class Pictures(Corpus):  # type: ignore[misc]
        """Opens a picture when it is asked for, as ``Corpus`` says one may."""

        def retrieve(self, docid: str) -> Image.Image:
            return Image.open(docid).convert("RGB")

    processor = BiQwen3Processor.from_pretrained(options.model)
    model = BiQwen3.from_pretrained(options.model, dtype=torch.float32, use_cache=False)
    linearised(model, options.linear)
    pairs = read_pairs(options.pairs, options.batch * options.steps)
    rows = [{"query": pair["query"], "pos_target": pair["image"]} for pair in pairs]
    dataset = ColPaliEngineDataset(rows, corpus=Pictures([{"doc": None}]))
    collator, times = VisualRetrieverCollator(processor=processor), StepTimes()
    arguments = TrainingArguments(
        output_dir=out,
        num_train_epochs=1,
        per_device_train_batch_size=options.batch,
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        dataloader_num_workers=2 if options.workers is None else options.workers,
        warmup_steps=100,
        learning_rate=2e-4,
        remove_unused_columns=False,
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = ContrastiveTrainer(
        model=model,
        train_dataset=dataset,
        eval_dataset=dataset,
        args=arguments,
        data_collator=collator,
        loss_func=BiEncoderLoss(),
        is_vision_model=True,
        callbacks=[times],
    )
    trainer.train()
    batch = collator([dataset[0]])
    return times.seconds(), float(batch["query_input_ids"].shape[1] + batch["doc_input_ids"].shape[1])


PEERS = {"sentence-transformers": sentence_transformers, "colpali-engine": colpali_engine}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("model", type=Path)
    parser.add_argument("pairs", type=Path)
    for name in ("batch", "chunk", "steps"):
        parser.add_argument(name, type=int)
    parser.add_argument("--linear", action="store_true")
    parser.add_argument("--workers", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    stdout, sys.stdout = sys.stdout, sys.stderr  # trainers print
    with tempfile.TemporaryDirectory() as out:
        seconds, tokens = PEERS[options.peer](options, out)
    print(json.dumps({"step_s": seconds, "tokens_of_a_pair": tokens}), file=stdout)


if __name__ == "__main__":
    main()
