"""An encoder as the one module of a SentenceTransformer, so that it gives our vectors. Needs the extra ``st``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from sentence_transformers.base.modules import InputModule

from tilewright.configs.errors import InputError
from tilewright.train.batch import Batch
from tilewright.train.encoder import Encoder, load_encoder, save_encoder

BATCH = "encoder_batch"
SentenceInput = str | Image.Image | dict[str, Any]


class SentenceEncoder(InputModule):  # type: ignore[misc]
    """Texts, PIL images, or {"text", "image"} -> "sentence_embedding". The prompt says whether they are queries."""

    save_in_root = True

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.model = encoder.model

    @property
    def modalities(self) -> list[Any]:
        """What an input may be."""
        return ["text", "image", ("image", "text")]

    def get_embedding_dimension(self) -> int:
        """D, the length of a vector."""
        return self.encoder.dimension

    def preprocess(self, inputs: Sequence[SentenceInput], prompt: str | None = None, **_: Any) -> dict[str, Any]:
        """Model inputs. Raises InputError for a prompt that is neither instruction of the contract."""
        texts, images = [], []
        for value in inputs:
            parts = value if isinstance(value, dict) else {"image" if isinstance(value, Image.Image) else "text": value}
            image, text = parts.get("image"), parts.get("text", "")
            if not parts.keys() <= {"image", "text"} or not isinstance(text, str):
                raise InputError(f"an input has {sorted(parts)}: wanted a text, a PIL image, or both as a dict")
            if image is not None and not isinstance(image, Image.Image):
                raise InputError(f"an image is of type {type(image).__name__}: wanted a PIL image")
            texts.append(text)
            images.append(image)
        return {BATCH: self._batch(prompt, texts, images)}

    def _batch(self, prompt: str | None, texts: list[str], images: list[Image.Image | None]) -> Batch:
        contract, batcher = self.encoder.contract, self.encoder.batcher
        if prompt == contract.query_instruction:
            return batcher.queries(texts, images)
        if prompt in (None, "", contract.tile_instruction):
            return batcher.documents(texts, images)
        raise InputError(
            f"prompt: wanted {contract.query_instruction!r} (prompt_name 'query') or {contract.tile_instruction!r}"
            f" (prompt_name 'document'), found {prompt!r}: another instruction gives another vector space"
        )

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Adds "sentence_embedding" [B, D], float32, unit length."""
        features["sentence_embedding"] = self.encoder.forward(features.pop(BATCH))
        return features

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write a checkpoint that ``load`` reads."""
        save_encoder(self.encoder, Path(output_path))

    @classmethod
    def load(
        cls, model_name_or_path: str, *, model_kwargs: dict[str, Any] | None = None, **options: Any
    ) -> "SentenceEncoder":
        """The encoder of a folder or a hub repository; ``dtype`` of ``model_kwargs`` is the precision it runs in.

        Raises InputError as ``load_encoder``.
        """
        places = ("subfolder", "token", "cache_folder", "revision", "local_files_only")
        given = {name: options[name] for name in places if name in options}
        folder = cls.load_dir_path(model_name_or_path, **given)
        if folder is None:
            raise InputError(f"{model_name_or_path}: wanted a folder or a hub repository, found neither")
        settings = model_kwargs or {}
        dtype = settings.get("dtype", settings.get("torch_dtype", torch.float32))
        if not isinstance(dtype, torch.dtype):
            raise InputError(f"model_kwargs: dtype: wanted a torch.dtype, found {dtype!r}")
        return cls(load_encoder(Path(folder), dtype=dtype))
