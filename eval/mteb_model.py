"""Our encoder as a model of ``mteb`` (extra ``mteb``), so that ViDoRe v1 to v3 and its other tasks of page images run.

The protocol is ``mteb.models.EncoderProtocol`` of mteb 2. Prompts are the encoder contract's own: those that a task
proposes are left aside, as for any model that was trained with its own.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import to_rgb
from tilewright.eval.tools import require_module
from tilewright.train.encoder import Encoder

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask
    from mteb.models.model_meta import ModelMeta

BENCHMARKS = ("ViDoRe(v1)", "ViDoRe(v2)", "ViDoRe(v3)")
Vectors = NDArray[np.float32]


class MtebEncoder:
    """``encode`` gives unit vectors [N, D]: queries by text (and picture), documents by their page image.

    ``batch_tokens`` bounds the visual tokens of a batch of documents.
    """

    def __init__(self, encoder: Encoder, *, name: str = "tilewright/embedder", batch_tokens: int = 4096) -> None:
        self._encoder, self._name, self._batch_tokens = encoder, name, batch_tokens

    @property
    def mteb_model_meta(self) -> "ModelMeta":
        """Name, size, and the encoder's hash as revision: results of another checkpoint are another model's."""
        from mteb.models.model_meta import ModelMeta

        values: dict[str, Any] = dict.fromkeys(
            name for name, entry in ModelMeta.model_fields.items() if entry.is_required()
        )
        values |= {
            "name": self._name,
            "revision": self._encoder.hash,
            "n_parameters": sum(parameter.numel() for parameter in self._encoder.model.parameters()),
            "embed_dim": self._encoder.dimension,
            "framework": ["PyTorch"],
            "similarity_fn_name": "cosine",
            "use_instructions": True,
            "modalities": ["text", "image"],
        }
        return ModelMeta(**values)

    def encode(self, inputs: Any, *, prompt_type: Any = None, **options: Any) -> Vectors:
        """Vectors of a loader of batches, {"text": [...], "image": [...]}, in its order.

        ``prompt_type`` says query or document. Raises InputError for documents without a page image and for inputs that
        are neither.
        """
        role = getattr(prompt_type, "value", prompt_type)
        if role not in ("query", "document"):
            raise InputError(f"prompt_type: wanted query or document (a retrieval task), found {prompt_type!r}")
        encode = self._queries if role == "query" else self._documents
        parts = [encode(batch) for batch in inputs]
        if not parts:
            return np.zeros((0, self._encoder.dimension), np.float32)
        return torch.cat(parts).numpy()

    def _queries(self, batch: Mapping[str, Any]) -> torch.Tensor:
        texts, images = batch.get("text"), batch.get("image")
        if texts is None and images is None:
            raise InputError(f"queries: wanted text or image, found {sorted(batch)}")
        pictures = None if images is None else [to_rgb(image) for image in images]
        return self._encoder.encode_queries(list(texts) if texts is not None else [""] * len(pictures or ()), pictures)

    def _documents(self, batch: Mapping[str, Any]) -> torch.Tensor:
        if batch.get("image") is None:
            raise InputError(f"documents: wanted page images, which this encoder embeds, found {sorted(batch)}")
        images = [to_rgb(image) for image in batch["image"]]
        return self._encoder.encode_tiles(images, batch_tokens=self._batch_tokens)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:
        """[N, M] cosines (the vectors have unit length)."""
        return torch.as_tensor(np.atleast_2d(embeddings1)) @ torch.as_tensor(np.atleast_2d(embeddings2)).T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:
        """[N] cosines of vectors in the same place."""
        return (torch.as_tensor(embeddings1) * torch.as_tensor(embeddings2)).sum(-1)


def mteb_tasks(benchmarks: Sequence[str], tasks: Sequence[str]) -> "list[AbsTask]":
    """The tasks of these benchmarks, then those named, each once. Raises InputError for a name that mteb hasn't."""
    require_module("mteb", "mteb")
    import mteb

    found: dict[str, Any] = {}
    try:
        for name in benchmarks:
            found |= {task.metadata.name: task for task in mteb.get_benchmark(name).tasks}
        found |= {task.metadata.name: task for task in (mteb.get_tasks(tasks=list(tasks)) if tasks else ())}
    except (KeyError, ValueError) as error:
        raise InputError(f"mteb: {error}") from error
    return list(found.values())


def run_task(model: MtebEncoder, task: "AbsTask", *, batch_size: int) -> dict[str, Any]:
    """One task through ``mteb.evaluate``: its main score, and nDCG, recall and MRR by split and subset.

    Nothing is read from or written to mteb's own cache of results.
    """
    import mteb

    result = mteb.evaluate(
        model,  # type: ignore[arg-type]
        task,
        cache=None,
        co2_tracker=False,
        encode_kwargs={"batch_size": batch_size, "show_progress_bar": False},
        show_progress_bar=False,
    )
    (found,) = result.task_results
    wanted = ("ndcg_at_", "recall_at_", "mrr_at_", "hit_rate_at_", "main_score")
    scores = {
        split: {
            entry["hf_subset"]: {name: float(value) for name, value in entry.items() if name.startswith(wanted)}
            for entry in entries
        }
        for split, entries in found.scores.items()
    }
    return {
        "task": found.task_name,
        "main_score": task.metadata.main_score,
        "value": float(found.get_score()),
        "dataset_revision": found.dataset_revision,
        "mteb_version": found.mteb_version,
        "scores": scores,
    }
