"""Validation of a reader in training: loss of the answer tokens, and exact match of greedy answers to a few rows."""

from collections.abc import Sequence

import torch
import torch.distributed as dist

from tilewright.configs.stage import rank_and_world
from tilewright.data_gen.answers import exact_match
from tilewright.data_gen.records import ReaderExample
from tilewright.train.reader import Reader
from tilewright.train.reader_batch import IGNORED, ReaderCollator, answer_loss, build_batch


class Validation:
    """Figures of ``reader`` on ``rows``; the first ``questions`` that show their gold tile are answered too (a reader
    that always says it cannot answer gets nothing). Ranks share the work."""

    def __init__(
        self,
        reader: Reader,
        collator: ReaderCollator,
        rows: Sequence[ReaderExample],
        *,
        questions: int,
        batch_size: int,
        max_new_tokens: int,
    ) -> None:
        self.reader, self.collator, self.rows = reader, collator, rows
        self.questions, self.batch_size, self.max_new_tokens = questions, batch_size, max_new_tokens

    def figures(self) -> dict[str, float]:
        """``validation_loss`` (mean over answer tokens) and ``validation_exact_match`` (share); empty without rows."""
        if not self.rows:
            return {}
        loss, tokens = self._loss()
        right, asked = self._exact_match()
        figures = {"validation_loss": loss / tokens}
        return figures | ({"validation_exact_match": right / asked} if asked else {})

    def _loss(self) -> tuple[float, float]:
        """(summed cross-entropy, answer tokens)."""
        model = self.reader.model
        training = model.training
        model.eval()
        loss, tokens = 0.0, 0
        with torch.no_grad():
            for rows in self._batches(self.rows):
                batch = self.reader.to_model(self.collator(rows))
                labels = batch.pop("labels")
                loss += float(answer_loss(model(**batch).logits, labels, 1))
                tokens += int(labels.ne(IGNORED).sum())
        model.train(training)
        return self._summed(loss, tokens)

    def _exact_match(self) -> tuple[float, float]:
        """(answers that match, questions asked)."""
        right, asked = 0, 0
        shown = [row for row in self.rows if row.gold_position is not None][: self.questions]
        for rows in self._batches(shown):
            inputs = [self.collator.row(row) for row in rows]
            unanswered = [type(row)(row.query, row.images) for row in inputs]
            batch = build_batch(unanswered, self.reader.prompt, self.reader.policy)
            for row, ids in zip(rows, self.reader.generate(batch, self.max_new_tokens), strict=True):
                right += exact_match(self.reader.prompt.decode(ids), (row.answer,))
                asked += 1
        return self._summed(right, asked)

    def _batches(self, rows: Sequence[ReaderExample]) -> list[Sequence[ReaderExample]]:
        rank, world = rank_and_world()
        batches = [rows[start : start + self.batch_size] for start in range(0, len(rows), self.batch_size)]
        return batches[rank::world]

    def _summed(self, *values: float) -> tuple[float, float]:
        """Each value summed over ranks."""
        if not dist.is_initialized():
            return values[0], values[1]
        total = torch.tensor(values, dtype=torch.float64, device=self.reader.model.device)
        dist.all_reduce(total)
        return float(total[0]), float(total[1])
