"""The corpus tokenizer and prompts that no text can break out of."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.train.tokenizer import (
    END_OF_TEXT,
    IMAGE_PAD,
    SPECIAL_TOKENS,
    TURN_END,
    TURN_START,
    PromptTokenizer,
    train_tokenizer,
)

TEXTS = ["The Matterhorn is 4,478 metres high.", "Ångström was born in 1814; naïve café.", "a b c\n\nd"] * 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer(TEXTS, 320, append_end=True).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def prompt_tokenizer(folder: Path) -> PromptTokenizer:
    return PromptTokenizer.from_folder(folder)


@pytest.fixture(scope="module")
def auto(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def test_special_tokens_come_last_in_qwens_order(prompt_tokenizer: PromptTokenizer) -> None:
    ids = [prompt_tokenizer.ids[token] for token in (END_OF_TEXT, TURN_START, TURN_END)]
    assert ids == list(range(ids[0], ids[0] + 3))
    assert prompt_tokenizer.vocab_size == ids[0] + len(SPECIAL_TOKENS)


def test_an_embedders_tokenizer_appends_the_end_a_readers_doesnt(prompt_tokenizer: PromptTokenizer, auto: Any) -> None:
    assert prompt_tokenizer.tail == (prompt_tokenizer.ids[END_OF_TEXT],)
    assert auto("Matterhorn").input_ids[-1] == prompt_tokenizer.last_token_id() == prompt_tokenizer.ids[END_OF_TEXT]
    reader = train_tokenizer(TEXTS, 320, append_end=False)
    assert reader("Matterhorn").input_ids[-1] != reader.convert_tokens_to_ids(END_OF_TEXT)
    assert reader.eos_token == TURN_END


def test_without_an_appended_token_the_generation_prompt_ends(tmp_path: Path) -> None:
    train_tokenizer(TEXTS, 320, append_end=False).save_pretrained(tmp_path)
    tokenizer = PromptTokenizer.from_folder(tmp_path)
    assert tokenizer.tail == ()
    assert tokenizer.last_token_id() == tokenizer.text(["\n"])[0][0]


@settings(deadline=None)
@given(st.text())
def test_text_round_trips_and_equals_transformers(prompt_tokenizer: PromptTokenizer, auto: Any, text: str) -> None:
    import unicodedata

    ids = prompt_tokenizer.text([text])[0]
    assert auto.decode(ids) == unicodedata.normalize("NFC", text)
    if "<|" not in text:
        assert ids == auto(text, add_special_tokens=False).input_ids


@pytest.mark.parametrize("token", SPECIAL_TOKENS)
def test_text_never_becomes_structure(prompt_tokenizer: PromptTokenizer, auto: Any, token: str) -> None:
    text = f"say {token} twice: {token}{token}"
    ids = prompt_tokenizer.text([text])[0]
    assert not set(ids) & set(prompt_tokenizer.ids.values())
    assert auto.decode(ids) == text


def test_a_lone_surrogate_is_a_question_mark(prompt_tokenizer: PromptTokenizer) -> None:
    assert prompt_tokenizer.text(["a\ud800b"]) == prompt_tokenizer.text(["a?b"])


def test_pickled_it_still_refuses_structure(prompt_tokenizer: PromptTokenizer) -> None:
    copy = pickle.loads(pickle.dumps(prompt_tokenizer))
    assert copy.text([IMAGE_PAD]) == prompt_tokenizer.text([IMAGE_PAD])
    assert copy.fingerprint == prompt_tokenizer.fingerprint


def test_the_fingerprint_follows_the_content(prompt_tokenizer: PromptTokenizer, tmp_path: Path) -> None:
    train_tokenizer(TEXTS, 320, append_end=True).save_pretrained(tmp_path / "same")
    train_tokenizer(TEXTS, 320, append_end=False).save_pretrained(tmp_path / "end")
    train_tokenizer(["quite other words"] * 3, 290, append_end=True).save_pretrained(tmp_path / "other")
    prints = [PromptTokenizer.from_folder(tmp_path / name).fingerprint for name in ("same", "end", "other")]
    assert prints[0] == prompt_tokenizer.fingerprint
    assert len(set(prints)) == 3


def test_truncation_and_padding_of_a_file_are_switched_off(folder: Path, prompt_tokenizer: PromptTokenizer) -> None:
    import tokenizers

    backend = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    backend.enable_truncation(4)
    backend.enable_padding(length=64)
    limited = PromptTokenizer(backend, "limited")
    assert limited.text(TEXTS) == prompt_tokenizer.text(TEXTS)
    assert limited.fingerprint == prompt_tokenizer.fingerprint


def test_the_chat_template(auto: Any) -> None:
    messages = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Who?"}]},
    ]
    assert auto.apply_chat_template(messages, tokenize=False, add_generation_prompt=True) == (
        "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Who?"
        "<|im_end|>\n<|im_start|>assistant\n"
    )


def test_bad_input(tmp_path: Path) -> None:
    import tokenizers

    with pytest.raises(InputError, match="no text to train the tokenizer on"):
        train_tokenizer([""], 400, append_end=True)
    with pytest.raises(InputError, match="vocab_size: wanted at least 270, found 100"):
        train_tokenizer(TEXTS, 100, append_end=True)
    with pytest.raises(InputError, match=r"no tokenizer\.json"):
        PromptTokenizer.from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match="not a tokenizer"):
        PromptTokenizer.from_folder(tmp_path)
    tokenizers.Tokenizer(tokenizers.models.BPE()).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match="wanted Qwen's special tokens"):
        PromptTokenizer.from_folder(tmp_path)
