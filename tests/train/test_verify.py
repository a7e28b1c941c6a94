"""``tilewright encoder verify``: stored probes, and similarities published for the real model."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tilewright.cli import main
from tilewright.configs.errors import InputError
from tilewright.train.encoder import load_encoder, save_encoder
from tilewright.train.pixels import synthetic_image
from tilewright.train.verify import load_as_published, published, verify_probes, verify_published

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def base(reader_parts: Any) -> Path:
    return Path(reader_parts.model).parent / "embedder"


@pytest.fixture(scope="module")
def checkpoint(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verify") / "checkpoint"
    save_encoder(load_encoder(base), folder)
    return folder


@dataclasses.dataclass(frozen=True)
class Called:
    """What a call of the command line printed, and its exit status."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def tilewright(capsys: pytest.CaptureFixture[str]) -> Callable[..., Called]:
    """The console script's own function, in this process."""

    def call(*arguments: object) -> Called:
        capsys.readouterr()
        status, said = 0, ""
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:  # a text is what Python prints to stderr before it exits with 1
            status, said = (1, end.code) if isinstance(end.code, str) else (int(end.code or 0), "")
        printed = capsys.readouterr()
        return Called(status, printed.out, printed.err + said)

    return call


def test_a_good_checkpoint(checkpoint: Path, tilewright: Callable[..., Called]) -> None:
    result = tilewright("encoder", "verify", checkpoint)
    encoder = load_encoder(checkpoint)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("ok   1.000000 (wanted >= 0.999)") == 4
    assert f"contract {encoder.contract.hash}\n" in result.stdout and f"encoder  {encoder.hash}\n" in result.stdout


def test_the_console_script_ends_with_1(checkpoint: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(checkpoint, tmp_path / "broken"))
    np.save(broken / "probes.npy", -np.load(broken / "probes.npy"))
    command = [str(Path(sys.executable).with_name("tilewright")), "encoder", "verify", str(broken)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 1 and result.stdout.count("BAD  -1.000000") == 4
    assert "4 of 4 values" in result.stderr and "Traceback" not in result.stderr


def test_another_vector_is_named(checkpoint: Path, tmp_path: Path, tilewright: Callable[..., Called]) -> None:
    broken = Path(shutil.copytree(checkpoint, tmp_path / "broken"))
    probes = np.load(broken / "probes.npy")
    probes[2] = -probes[2]
    np.save(broken / "probes.npy", probes)
    result = tilewright("encoder", "verify", broken)
    assert result.returncode == 1
    assert result.stdout.count("ok ") == 3 and "BAD  -1.000000" in result.stdout and "96 x 64 px" in result.stdout
    assert "1 of 4 values" in result.stderr and "Traceback" not in result.stderr
    _, checks = verify_probes(broken)
    assert [check.good for check in checks] == [True, True, False, True]


def test_a_vector_that_is_no_number_is_bad(checkpoint: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(checkpoint, tmp_path / "broken"))
    probes = np.load(broken / "probes.npy")
    probes[0, 0] = np.nan
    np.save(broken / "probes.npy", probes)
    assert not verify_probes(broken)[1][0].good


def test_replaced_weights_and_a_base_folder(
    checkpoint: Path, base: Path, tmp_path: Path, tilewright: Callable[..., Called]
) -> None:
    broken = Path(shutil.copytree(checkpoint, tmp_path / "broken"))
    with (broken / "model.safetensors").open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\x00\x00\x80\x3f")
    result = tilewright("encoder", "verify", broken)
    assert result.returncode == 1 and "replaced after the checkpoint was written" in result.stderr
    result = tilewright("encoder", "verify", base)
    assert result.returncode == 1 and "no encoder.json: wanted a checkpoint" in result.stderr


def test_random_weights_are_not_the_published_model(
    base: Path, checkpoint: Path, tmp_path: Path, tilewright: Callable[..., Called]
) -> None:
    for folder in (base, checkpoint):
        result = tilewright("encoder", "verify", folder, "--published")
        assert result.returncode == 1 and "values aren't what they should be" in result.stderr
        assert "model card of Qwen/Qwen3-VL-Embedding-2B" in result.stdout
        assert result.stdout.count("(wanted ") == 4
    synthetic_image(300, 200).save(tmp_path / "picture.png")
    result = tilewright("encoder", "verify", base, "--published", "--image", tmp_path / "picture.png")
    assert result.returncode == 1 and result.stdout.count("(wanted ") == 12
    result = tilewright("encoder", "verify", checkpoint, "--image", tmp_path / "picture.png")
    assert result.returncode == 1 and "--image belongs to --published" in result.stderr


def test_what_is_published_is_whole_and_its_spread_within_the_tolerance() -> None:
    """Rows are queries, columns documents; the first two sources, of like precision, agree within the tolerance."""
    expected = published()
    first, second, third = (np.array(source["similarities"]) for source in expected.sources)
    assert first.shape == second.shape == third.shape == (len(expected.queries), len(expected.columns)) == (4, 3)
    tolerance = np.array([expected.tolerance[name] for name in expected.columns])
    assert (abs(first - second) <= tolerance).all()
    assert (np.diff(first, axis=0) < 0).all()  # queries stand from the nearest to the farthest
    assert json.loads(json.dumps(expected.similarities)) == first.tolist()


def test_the_base_gets_the_published_limits_and_the_instruction_is_checked(base: Path, checkpoint: Path) -> None:
    encoder = load_as_published(base, None, "cpu", torch.float32)
    assert (encoder.contract.pixels.min_pixels, encoder.contract.pixels.max_pixels) == (4096, 1843200)
    own = load_as_published(checkpoint, None, "cpu", torch.float32)
    assert own.contract.pixels.max_pixels == 65536
    with pytest.raises(InputError, match=r"stand under the instruction 'Other\.'"):
        verify_published(encoder, dataclasses.replace(published(), instruction="Other."))


def test_values_are_those_of_our_vectors(base: Path) -> None:
    """With the encoder's own values as expectation every check is good; with one moved by more than tolerated, not."""
    encoder, image = load_encoder(base), synthetic_image(300, 200)
    expected = published()
    found = [check.found for check in verify_published(encoder, expected, image)]
    table = np.array(found).reshape(3, 4).T
    own = dataclasses.replace(expected, sources=({"similarities": table.tolist()},))
    assert all(check.good for check in verify_published(encoder, own, image))
    documents = encoder.batcher.documents([expected.document, "", expected.document], [None, image, image])
    with torch.no_grad():
        queries = encoder.forward(encoder.document_batch(expected.queries))
        torch.testing.assert_close(queries @ encoder.forward(documents).T, torch.tensor(table).float())
    table[3, 1] += 0.021
    moved = dataclasses.replace(expected, sources=({"similarities": table.tolist()},))
    assert [check.good for check in verify_published(encoder, moved, image)] == [True] * 7 + [False] + [True] * 4
