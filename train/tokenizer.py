"""Qwen's tokenizer: a byte-level BPE trained on a corpus, and prompts from segments that no text can break out of."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from tilewright.configs.digests import canonical_json, digest_text
from tilewright.configs.errors import InputError

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD = "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"
STRUCTURE = (TURN_START, TURN_END, VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD)
SPECIAL_TOKENS = (  # in the order of Qwen's vocabulary
    END_OF_TEXT,
    TURN_START,
    TURN_END,
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    VISION_START,
    VISION_END,
    "<|vision_pad|>",
    IMAGE_PAD,
    VIDEO_PAD,
)
TOKENIZER_FILE = "tokenizer.json"
# Qwen2's split of text into words (transformers' Qwen2Tokenizer rebuilds it, so a trained vocabulary must use it too)
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHAT_TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.content is string %}
        {{- message.content }}
    {%- else %}
        {%- for part in message.content %}
            {%- if part.type == 'image' %}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' }}
            {%- elif part.type == 'text' %}
                {{- part.text }}
            {%- else %}
                {{- raise_exception('content type ' + part.type + ' is neither image nor text') }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def train_tokenizer(texts: Iterable[str], vocab_size: int, *, append_end: bool) -> Any:
    """A Qwen2Tokenizer of at most ``vocab_size`` tokens: byte-level BPE of ``texts`` with Qwen's special tokens last.

    ``append_end``: its post-processor appends ``<|endoftext|>``, as an embedder's does. The same texts in the same
    order give the same tokenizer. Raises InputError if there is no text or ``vocab_size`` is too small.
    """
    from transformers import Qwen2Tokenizer

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    if vocab_size < len(alphabet) + len(SPECIAL_TOKENS):
        raise InputError(f"vocab_size: wanted at least {len(alphabet) + len(SPECIAL_TOKENS)}, found {vocab_size}")
    backend = tokenizers.Tokenizer(models.BPE())
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    size = vocab_size - len(SPECIAL_TOKENS)
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=sorted(alphabet), show_progress=False)
    seen = _Counting(texts)
    backend.train_from_iterator(seen, trainer)
    if not seen.characters:
        raise InputError("no text to train the tokenizer on: the tiles hold no DOM text")
    model = json.loads(backend.to_str())["model"]
    options: dict[str, Any] = {"vocab": model["vocab"], "merges": [tuple(merge) for merge in model["merges"]]}
    backend.add_special_tokens(list(SPECIAL_TOKENS))
    if append_end:
        end = (END_OF_TEXT, backend.token_to_id(END_OF_TEXT))
        options["post_processor"] = processors.TemplateProcessing(single=f"$A {END_OF_TEXT}", special_tokens=[end])
    return Qwen2Tokenizer(
        **options,
        eos_token=END_OF_TEXT if append_end else TURN_END,
        pad_token=END_OF_TEXT,
        extra_special_tokens=list(SPECIAL_TOKENS),
        chat_template=CHAT_TEMPLATE,
    )


class _Counting:
    """Passes texts on and counts their characters."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts, self.characters = texts, 0

    def __iter__(self) -> Iterator[str]:
        for text in self.texts:
            self.characters += len(text)
            yield text


class PromptTokenizer:
    """Token ids of prompts made of segments: plain text never turns into structure tokens, whatever it holds.

    Reads ``tokenizer.json`` of a ``save_pretrained`` folder with the ``tokenizers`` library, so that it doesn't depend
    on which tokenizer class a version of transformers picks. ``tail`` is what its post-processor appends to a text.
    """

    def __init__(self, backend: tokenizers.Tokenizer, where: str) -> None:
        backend.no_truncation()
        backend.no_padding()
        missing = [token for token in (*STRUCTURE, END_OF_TEXT) if backend.token_to_id(token) is None]
        if missing:
            raise InputError(f"{where}: the tokenizer has no {missing}: wanted Qwen's special tokens")
        self.ids = {token: int(backend.token_to_id(token) or 0) for token in (*STRUCTURE, END_OF_TEXT)}
        self.tail: tuple[int, ...] = tuple(backend.encode("", add_special_tokens=True).ids)
        self.fingerprint = _fingerprint(backend)
        self.vocab_size = backend.get_vocab_size(with_added_tokens=True)
        self._structure = frozenset(self.ids.values())
        self._use(backend)

    def _use(self, backend: tokenizers.Tokenizer) -> None:
        backend.encode_special_tokens = True  # from here on `<|im_end|>` in a text is some characters, not a token
        self._backend = backend

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_backend": self._backend.to_str()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._use(tokenizers.Tokenizer.from_str(state["_backend"]))

    @classmethod
    def from_folder(cls, folder: Path) -> "PromptTokenizer":
        """Raises InputError if the folder has no readable ``tokenizer.json`` with Qwen's special tokens."""
        path = folder / TOKENIZER_FILE
        if not path.is_file():
            raise InputError(f"{folder}: no {TOKENIZER_FILE}: save the tokenizer there with save_pretrained")
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:
            raise InputError(f"{path}: not a tokenizer: {error}") from error
        return cls(backend, str(path))

    def text(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of plain texts, without special tokens. Raises InputError if one would hold a structure token."""
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]  # a lone surrogate becomes `?`
        encoded = [encoding.ids for encoding in self._backend.encode_batch(clean, add_special_tokens=False)]
        for text, ids in zip(texts, encoded, strict=True):
            if not self._structure.isdisjoint(ids):
                raise InputError(f"text {text[:80]!r} was tokenised to structure tokens")
        return encoded

    def last_token_id(self) -> int:
        """The last token of every prompt: what the tokenizer appends, else the end of the generation prompt."""
        return self.tail[-1] if self.tail else self.text(["assistant\n"])[0][-1]

    def token(self, token_id: int) -> str:
        """The token of an id."""
        return str(self._backend.id_to_token(token_id))


def _fingerprint(backend: tokenizers.Tokenizer) -> str:
    """SHA-256 of vocabulary, merges, added and appended tokens; independent of how a library version spells them."""
    model = json.loads(backend.to_str())["model"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model.get("merges", [])]
    added = [
        [token_id, token.content, token.special]
        for token_id, token in sorted(backend.get_added_tokens_decoder().items())
    ]
    probes = [backend.encode(text).ids for text in ("", "Ünïcode  ﬁ 12\n\n x's", f"a{TURN_END}b{IMAGE_PAD} c")]
    vocabulary = sorted(backend.get_vocab(with_added_tokens=False).items(), key=lambda entry: entry[1])
    return digest_text(canonical_json([vocabulary, merges, added, probes]))
