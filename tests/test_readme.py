"""Every command of the README runs: make targets by CI, launchers in test_launchers.py, other sources than HTML
folders in test_readme_sources.py, the rest here."""

import re
import shlex
from pathlib import Path

import pytest

from tilewright.cli import STAGES, main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
COMMANDS = [line.split(" #")[0].strip() for block in BLOCKS for line in block.splitlines() if line.strip()]
OF_STAGES = [command for command in COMMANDS if command.startswith("tilewright ")]
OF_NANO = [command for command in OF_STAGES if "nano" in command]
OF_THE_LINE = [
    command
    for command in OF_STAGES
    if command not in OF_NANO and ("/smoke.yaml" in command or command.startswith("tilewright status"))
]
OF_OWN_PAGES = [command for command in OF_STAGES if "runs/own/" in command]
OF_MODELS = [
    command for command in OF_STAGES if "openai" in command or "merge_pairs" in command or "precision" in command
]
OTHERS = (
    *OF_THE_LINE,
    *OF_OWN_PAGES,
    *OF_MODELS,
    *OF_NANO,
)  # those of models: tests/data_gen/llm/test_readme_models.py
OF_SOURCES = [command for command in OF_STAGES if command not in OTHERS]
BESIDE = (
    "fetch_pages", "self_contained", "answerable", "natural", "merge_pairs", "text_pairs", "make_title_tiles",
    "make_word_tiles", "make_reading_pages", "compress_tiles", "pretrain_nano", "make_nano", "make_questions",
    "train_nano_reader",
    "evaluate_checkpoints", "evaluate_citations", "evaluate_mteb", "evaluate_reader", "make_results", "merge_negatives",
    "merge_vectors", "mini_datastore", "train_index", "merge_index", "make_digest_pages", "merge_tiles",
    "find_positives", "count_false_negatives",
)  # fmt: skip
LINE = [name for name in STAGES if name not in BESIDE]  # BESIDE: need a network, a model or parts, or nobody waits for

PAGE = """<!doctype html><html><head><title>{name}</title></head><body><h1>{name}</h1>
<p>{name} is a village in the county of Torvald. It was founded in {year} by the miller Ansel Brandt.
The old mill of {name} was rebuilt by the engineer Mira Castellan in {later} after a flood.</p>
<p>{text}</p></body></html>"""


def test_every_command_is_of_a_kind_that_is_run_somewhere() -> None:
    assert {shlex.split(command)[0] for command in COMMANDS} <= {"make", "tilewright", "accelerate", "torchrun"}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {shlex.split(command)[1] for command in COMMANDS if command.startswith("make ")} <= targets
    launched = [command for command in COMMANDS if command.startswith(("accelerate", "torchrun"))]
    assert launched and all("train_embedder/smoke.yaml" in command for command in launched), "as in test_launchers.py"


def test_the_line_of_stages_is_complete_and_in_order() -> None:
    assert [shlex.split(command)[1] for command in OF_THE_LINE if "/smoke.yaml" in command] == LINE


@pytest.mark.browser
@pytest.mark.parametrize("command", OF_NANO)
def test_commands_of_nano_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_RUNS", str(tmp_path))
    monkeypatch.chdir(ROOT)
    main([argument.replace("out=runs/", f"out={tmp_path}/") for argument in shlex.split(command)[1:]])
    assert list(tmp_path.rglob("model.safetensors"))


@pytest.mark.parametrize("command", OF_THE_LINE)
def test_command_runs(
    command: str, smoke_runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEWRIGHT_RUNS", str(smoke_runs))
    monkeypatch.chdir(ROOT)
    arguments = shlex.split(command)[1:]
    main([re.sub(r"^runs(?=/|$)", str(smoke_runs), argument) for argument in arguments])
    assert capsys.readouterr().out.strip()


@pytest.mark.browser
def test_own_pages_become_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_RUNS", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_pages").mkdir()
    names = ("Ostermoor", "Velkirk", "Harrowgate Fen", "Lindquay", "Sorrel Bridge", "Tamsin Cross")
    for number, name in enumerate(names):
        text = f"Its market, held since {1500 + number}, sells wool from {name} and from nowhere else in the land. " * 3
        page = PAGE.format(name=name, year=1200 + 17 * number, later=1700 + 13 * number, text=text)
        (tmp_path / "my_pages" / f"{number}.html").write_text(page, encoding="utf-8")
    for command in OF_OWN_PAGES:
        main(shlex.split(command)[1:])
    pairs = [
        line
        for split in ("train", "validation", "test")
        for line in (tmp_path / f"runs/own/splits/{split}.jsonl").open()
    ]
    assert [shlex.split(command)[1] for command in OF_OWN_PAGES] == LINE[:5] and pairs
