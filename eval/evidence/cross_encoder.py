"""Cross-encoders as rerankers, through transformers: sequence classifiers, and Qwen3-Reranker's yes against no."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tilewright.configs.errors import InputError
from tilewright.eval.evidence.rerankers import RerankError

INSTRUCTION = "Given a search query, retrieve relevant candidates that answer the query."
_PREFIX = (
    "<|im_start|>system\n"
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided."
    ' Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
_CLASSIFIER, _GENERATORS = "ForSequenceClassification", ("ForCausalLM", "ForConditionalGeneration")


class CrossEncoder:
    """Scores (query, text) pairs with the model of a ``save_pretrained`` folder.

    A sequence classifier with one label gives its logit, with two the second's minus the first's. A generator
    (Qwen3-Reranker) is asked in its own prompt and gives logit(yes) - logit(no), the order of its probability of yes;
    text can't break out of the prompt. Texts are cut at ``max_tokens``.
    Raises InputError for a folder that holds neither.
    """

    def __init__(
        self,
        folder: Path,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        instruction: str = INSTRUCTION,
        max_tokens: int = 1024,
        batch: int = 16,
    ) -> None:
        import transformers

        self.name, self._max_tokens, self._batch, self._instruction = folder.name, max_tokens, batch, instruction
        architecture = _architecture(folder)
        self._classifies = architecture.endswith(_CLASSIFIER)
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
            model = getattr(transformers, architecture).from_pretrained(str(folder), dtype=dtype, local_files_only=True)
        except (OSError, ValueError, AttributeError) as error:
            raise InputError(f"{folder}: not a loadable {architecture}: {error}") from error
        self._model = model.to(device).eval()
        if self._tokenizer.pad_token_id is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        if self._classifies and self._model.config.num_labels > 2:
            raise InputError(f"{folder}: wanted a classifier with 1 or 2 labels, found {self._model.config.num_labels}")
        if self._classifies:
            self._model.config.pad_token_id = self._tokenizer.pad_token_id
        else:
            self._yes, self._no = (self._word(folder, word) for word in ("yes", "no"))
            self._prefix, self._suffix = (self._ids(text, special=True) for text in (_PREFIX, _SUFFIX))

    @torch.inference_mode()
    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score a text; equal alone and in a batch. Raises RerankError if the model gives one that is no number."""
        encoded = [self._pair(query, text) if self._classifies else self._prompt(query, text) for text in texts]
        scores = [0.0] * len(texts)
        order = sorted(range(len(texts)), key=lambda index: len(encoded[index]["input_ids"]))
        for start in range(0, len(order), self._batch):
            chosen = order[start : start + self._batch]
            for index, score in zip(chosen, self._forward([encoded[index] for index in chosen]), strict=True):
                scores[index] = score
        if any(map(math.isnan, scores)):
            raise RerankError(f"{self.name}: {sum(map(math.isnan, scores))} of {len(scores)} scores are no numbers")
        return scores

    def _forward(self, rows: Sequence[dict[str, list[int]]]) -> list[float]:
        """Rows padded on the right; the last attended position is read, so padding doesn't matter."""
        length = max(len(row["input_ids"]) for row in rows)
        inputs = {}
        for name in rows[0]:
            pad = self._tokenizer.pad_token_id if name == "input_ids" else 0
            padded = [row[name] + [pad] * (length - len(row[name])) for row in rows]
            inputs[name] = torch.tensor(padded, device=self._model.device)
        logits = self._model(**inputs).logits.float()
        if self._classifies:
            scores = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
        else:
            last = logits[torch.arange(len(rows)), inputs["attention_mask"].sum(dim=1) - 1]  # [rows, vocabulary]
            scores = last[:, self._yes] - last[:, self._no]
        found: list[float] = scores.tolist()
        return found

    def _pair(self, query: str, text: str) -> dict[str, list[int]]:
        made = self._tokenizer(
            query, text, truncation="longest_first", max_length=self._max_tokens, split_special_tokens=True
        )
        return {name: list(ids) for name, ids in made.items()}

    def _prompt(self, query: str, text: str) -> dict[str, list[int]]:
        asked = f"<Instruct>: {self._instruction}\n<Query>: {query}\n<Document>: {text}"
        room = self._max_tokens - len(self._prefix) - len(self._suffix)
        ids = self._prefix + self._ids(asked, special=False)[: max(room, 1)] + self._suffix
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}

    def _ids(self, text: str, *, special: bool) -> list[int]:
        made = self._tokenizer(text, add_special_tokens=False, split_special_tokens=not special)
        return list(made["input_ids"])

    def _word(self, folder: Path, word: str) -> int:
        ids = self._ids(word, special=False)
        if len(ids) != 1:
            raise InputError(f"{folder}: wanted {word!r} to be one token, found {len(ids)}: not a Qwen3-Reranker")
        return ids[0]


def _architecture(folder: Path) -> str:
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(f"{folder}: no config.json: wanted the folder of a reranker")
    found = (json.loads(path.read_text(encoding="utf-8")).get("architectures") or [""])[0]
    if not found.endswith((_CLASSIFIER, *_GENERATORS)):
        raise InputError(f"{folder}: wanted a model {_CLASSIFIER} or {' or '.join(_GENERATORS)}, found {found!r}")
    return str(found)
