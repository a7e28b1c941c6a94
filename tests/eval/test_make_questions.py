"""The stage: every row is a question or counted with its reason; pictures are kept; a rerun is the stored result."""

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import datasets
import pytest
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.configs.load import load
from tilewright.configs.stage import run_stage
from tilewright.data_gen.decontamination import read_evaluation_sets
from tilewright.data_gen.records import Page, read_jsonl, write_jsonl
from tilewright.data_gen.urls import page_id
from tilewright.eval.benchmarks.question import EvalQuestion
from tilewright.eval.benchmarks.rows import HubSource
from tilewright.eval.make_questions import STAGE, Config, DroppedRow, GoldOutside

WIKI = "https://en.wikipedia.org/wiki/"
SMOKE = Path(__file__).parents[2] / "configs/eval/make_questions/smoke.yaml"


def hotpot(number: int, **changes: Any) -> dict[str, Any]:
    row = {"_id": f"id{number}", "question": f"Who built hall {number}?", "answer": "Ora", "type": "bridge"}
    return row | {"supporting_facts": [[f"Hall {number}", 0]], "context": []} | changes


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(rows))
    return path


def picture(colour: str = "red") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), colour).save(buffer, "PNG")
    return buffer.getvalue()


def test_the_smoke_config_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_RUNS", str(tmp_path))
    config = load(SMOKE, Config)
    counts = run_stage(STAGE, config)["counts"]
    assert counts == {
        "benchmark": "frames", "rows": 4, "questions": 3, "not_sampled": 0, "with_picture": 0, "gold_urls_unusable": 0,
        "dropped_no_answer": 1, "questions_with_gold_url": 3, "questions_without_gold_url": 0,
    }  # fmt: skip
    found = read_jsonl(config.out / "questions.jsonl", EvalQuestion, unique="query_id")
    assert found[0].gold_urls == (f"{WIKI}Ampère",) and found[1].gold_urls[1] == f"{WIKI}Stalker_(1979_film)"
    assert read_jsonl(config.out / "dropped.jsonl", DroppedRow) == [DroppedRow("smoke_frames.tsv:5", "no_answer")]
    (known,) = read_evaluation_sets([config.out / "questions.jsonl"])  # training keeps away from them
    assert len(known.questions) == 3 and page_id(f"{WIKI}Alain_Connes") in known.gold


def test_rows_are_questions_or_counted(tmp_path: Path) -> None:
    rows = [
        hotpot(1),
        hotpot(2, type="comparison"),
        hotpot(3, answer=""),
        hotpot(4, question=" "),
        hotpot(1, question="Another with the id of the first?"),
        hotpot(5),
    ]
    pages = [Page(page_id(WIKI + name), WIKI + name, name, "", "x") for name in ("Hall_1", "Great_Hall")]
    write_jsonl(tmp_path / "pages.jsonl", pages)
    (tmp_path / "redirects.json").write_text(json.dumps({f"{WIKI}Hall_5": f"{WIKI}Great_Hall"}))
    config = Config(
        tmp_path / "out",
        "hotpotqa",
        (write(tmp_path / "a.json", rows),),
        pages=tmp_path / "pages.jsonl",
        redirects=tmp_path / "redirects.json",
        kinds=("bridge",),
        duplicate_ids="keep_first",
    )
    counts = run_stage(STAGE, config)["counts"]
    dropped = {key: number for key, number in counts.items() if key.startswith("dropped_")}
    assert dropped == {
        "dropped_duplicate_id": 1, "dropped_no_answer": 1, "dropped_no_question_text": 1, "dropped_other_kind": 1,
    }  # fmt: skip
    assert counts["questions"] == 2 == counts["rows"] - sum(dropped.values())
    assert counts["gold_urls_outside_corpus"] == 0
    alone = dataclasses.replace(config, out=tmp_path / "alone", redirects=None)
    counts = run_stage(STAGE, alone)["counts"]
    assert counts["questions_with_all_gold_outside_corpus"] == 1
    outside = read_jsonl(alone.out / "gold_outside.jsonl", GoldOutside)
    assert outside == [GoldOutside("hotpotqa-id5", f"{WIKI}Hall_5")]
    reasons = [(entry.row, entry.reason) for entry in read_jsonl(alone.out / "dropped.jsonl", DroppedRow)]
    assert reasons[0] == ("a.json[1]", "other_kind") and len(reasons) == 4
    with pytest.raises(InputError, match=r"a\.json\[4\]: the id 'hotpotqa-id1' stands twice \(first: .*a\.json\[0\]\)"):
        run_stage(STAGE, dataclasses.replace(config, out=tmp_path / "strict", duplicate_ids="refuse"))


def test_a_sample_does_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    rows = [hotpot(number) for number in range(40)]
    chosen = []
    for name, order in (("a", rows), ("b", rows[::-1])):
        config = Config(tmp_path / name, "hotpotqa", (write(tmp_path / f"{name}.json", order),), count=7, seed=3)
        assert run_stage(STAGE, config)["counts"]["not_sampled"] == 33
        chosen.append([question.query_id for question in read_jsonl(config.out / "questions.jsonl", EvalQuestion)])
    assert chosen[0] == chosen[1][::-1] and len(set(chosen[0])) == 7


def test_pictures_are_found_checked_and_kept_once(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    (folder / "a/b/c").mkdir(parents=True)
    (folder / "a/b/c/abcd01.jpg").write_bytes(picture())
    (folder / "broken.png").write_bytes(b"no picture")
    (tmp_path / "secret.png").write_bytes(picture("blue"))
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    asked = {"question": "q?", "options": ["A. x", "B. y"], "Ground_Truth": "A", "question_type": "event"}
    names = (
        "abcd01",
        "a/b/c/abcd01.jpg",
        "missing",
        "broken",
        "../secret.png",
        str(tmp_path / "secret.png"),
        "link",
        "",
    )
    rows = [asked | {"id": str(number), "img_path": name} for number, name in enumerate(names)]
    config = Config(tmp_path / "out", "livevqa", (write(tmp_path / "a.json", rows),), images=folder)
    counts = run_stage(STAGE, config)["counts"]
    assert (counts["questions"], counts["with_picture"]) == (2, 2)
    assert (counts["dropped_picture_missing"], counts["dropped_picture_broken"]) == (5, 1)
    one, other = read_jsonl(config.out / "questions.jsonl", EvalQuestion)
    assert one.image == other.image and (config.out / one.image).read_bytes() == picture()
    assert len(list((config.out / "images").iterdir())) == 1
    with pytest.raises(InputError, match="images: wanted the folder of the pictures"):
        run_stage(STAGE, dataclasses.replace(config, out=tmp_path / "none", images=None))


def test_no_question_is_an_error_that_says_why(tmp_path: Path) -> None:
    config = Config(tmp_path / "out", "hotpotqa", (write(tmp_path / "a.json", [hotpot(1, answer="")]),))
    with pytest.raises(InputError, match=r"hotpotqa: 1 rows gave no question \(no_answer: 1\)"):
        run_stage(STAGE, config)
    with pytest.raises(InputError, match="wanted an id without blanks"):
        run_stage(STAGE, dataclasses.replace(config, files=(write(tmp_path / "b.json", [hotpot(1, _id="a b")]),)))
    with pytest.raises(ValueError, match="benchmark: wanted one of"):
        dataclasses.replace(config, benchmark="nqq")
    with pytest.raises(ValueError, match="redirects: wanted `pages`"):
        dataclasses.replace(config, redirects=tmp_path / "r.json")


def test_a_data_set_that_datasets_loads(tmp_path: Path) -> None:
    """A local folder in the place of the hub: the same call."""
    folder = tmp_path / "set"
    folder.mkdir()
    rows = [
        {
            "sample_id": f"s{number}",
            "query": "Who?",
            "gt_answer": "Ora",
            "area": "news",
            "alternative_gt_answers": ["O."],
        }
        | {"query_image": {"bytes": picture(), "path": None} if number else None}
        for number in range(3)
    ]
    features = datasets.Features(
        {name: datasets.Value("string") for name in ("sample_id", "query", "gt_answer", "area")}
        | {"alternative_gt_answers": datasets.List(datasets.Value("string")), "query_image": datasets.Image()}
    )
    datasets.Dataset.from_list(rows, features=features).to_parquet(folder / "end2end.parquet")
    source = HubSource(str(folder), "train", "main")
    config = Config(tmp_path / "out", "mmsearch", hub=source)
    counts = run_stage(STAGE, config)["counts"]
    assert (counts["questions"], counts["with_picture"], counts["questions_with_gold_url"]) == (3, 2, 0)
    found = read_jsonl(config.out / "questions.jsonl", EvalQuestion)
    assert found[0].image == "" and (config.out / found[1].image).read_bytes() == picture()
    with pytest.raises(InputError, match=r"hub: .* can't be loaded"):
        nowhere = dataclasses.replace(source, name=str(tmp_path / "nowhere"))
        run_stage(STAGE, dataclasses.replace(config, out=tmp_path / "none", hub=nowhere))
    with pytest.raises(ValueError, match="files: wanted at least one file, or `hub`"):
        Config(tmp_path / "x", "mmsearch")
    with pytest.raises(ValueError, match="split: wanted in `hub`"):
        dataclasses.replace(config, split="test")
