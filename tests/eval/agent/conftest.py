"""A running agent_server, a collection to search, and agents that use both."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tilewright.configs.items import ItemError
from tilewright.data_gen.llm import LlmSettings
from tilewright.eval.agent.options import Agent, Limits
from tilewright.eval.agent.reader import AgentReader
from tilewright.eval.agent.steps import STEPS
from tilewright.eval.deliveries import Delivery
from tilewright.eval.parts import Asked, Found, Item, Picture, Prediction, Question

SERVER = Path(__file__).with_name("agent_server.py")
TEXTS = {
    "t0": "Oslo was founded in 1705 by people from the river.",
    "t1": "Quito was founded in 1703.",
    "t2": "A long text about rivers. " * 40,
}


@dataclass
class Running:
    """A server: its address and what it was asked."""

    url: str
    log: Path

    def events(self, event: str = "start") -> list[dict[str, Any]]:
        lines = map(json.loads, self.log.read_text().splitlines()) if self.log.exists() else ()
        return [line for line in lines if line["event"] == event]

    def bodies(self, model: str) -> list[dict[str, Any]]:
        return [line["body"] for line in self.events() if line["body"]["model"] == model]


@contextmanager
def started(folder: Path, latency_s: float = 0.0) -> Iterator[Running]:
    log = folder / "server.jsonl"
    command = [sys.executable, str(SERVER), str(log), str(latency_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Running(process.stdout.readline().strip(), log)
        finally:
            process.kill()


@pytest.fixture(scope="session")
def agent_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with started(tmp_path_factory.mktemp("agent_server")) as running:
        yield running


@pytest.fixture
def slow_server(tmp_path: Path) -> Iterator[Callable[[float], Running]]:
    with ExitStack() as stack:
        yield lambda latency_s: stack.enter_context(started(tmp_path, latency_s))


class Words:
    """A retriever of texts by words in common; ``pictures``: its items are pictures of a size of their own."""

    title, facts = "words", dict[str, object]()
    items_failed, sees_gold, closed_book = 0, False, False

    def __init__(self, texts: dict[str, str] | None = None, pictures: bool = False) -> None:
        self.texts = TEXTS if texts is None else texts
        self.pictures = pictures
        self.page_of = {name: f"page {name}" for name in self.texts}
        self.asked = list[str]()
        self.identity = f"words/{sorted(self.texts.items())}/{pictures}"

    def item(self, item_id: str) -> Item:
        number = sorted(self.texts).index(item_id)
        size = (64 + 32 * number, 64)
        picture = Picture(f"{number:064x}", size, lambda: Image.new("RGB", size, "white")) if self.pictures else None
        return Item(
            item_id, self.page_of[item_id], "text_chunk", self.texts[item_id], picture, title=f"About {item_id}"
        )

    def search(self, questions: Sequence[Question], depth: int) -> Found:
        hits, errors = {}, {}
        for question in questions:
            self.asked.append(question.query)
            words = set(question.query.lower().replace("?", "").split())
            scores = {name: len(words & set(text.lower().split())) for name, text in self.texts.items()}
            best = sorted(((name, float(n)) for name, n in scores.items() if n), key=lambda hit: (-hit[1], hit[0]))
            hits[question.query_id] = tuple(best[:depth])
            if "broken" in words:
                del hits[question.query_id]
                errors[question.query_id] = "the index is down"
        return Found(hits, errors)


def unchanged(item: Item) -> tuple[Item, str | None]:
    if "undeliverable" in item.text:
        raise ItemError(f"OCR of {item.item_id} failed")
    return item, "looked_at"


def question(number: int = 0, query: str = "When was Oslo founded?") -> Question:
    return Question(f"q/../{number}", query, ("1705",), cluster=f"c{number}")


@dataclass
class Asking:
    """What came of questions: predictions or errors by query_id, and the steps."""

    found: dict[str, Prediction | ItemError]
    folder: Path

    @property
    def one(self) -> Any:
        (value,) = self.found.values()
        return value

    @property
    def steps(self) -> list[dict[str, Any]]:
        (path,) = (self.folder / STEPS).iterdir()
        return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def ask(agent_server: Running, tmp_path: Path) -> Callable[..., Asking]:
    """ask(model, [retriever], protocol=..., limits=..., questions=[...]) -> Asking."""

    def run(model: str, retriever: Words | None = None, **changes: Any) -> Asking:
        agent = options(
            agent_server, model, **{name: changes[name] for name in changes if name not in ("questions", "k")}
        )
        row = AgentReader(agent).using(retriever or Words(), Delivery("test", unchanged), changes.get("k", 2))
        folder = tmp_path / f"part{len(list(tmp_path.glob('part*')))}"
        folder.mkdir()
        asked = [Asked(one, ()) for one in changes.get("questions", [question()])]
        found = {one.question.query_id: value for one, value in row.answer(asked, folder)}
        return Asking(found, folder)

    return run


@pytest.fixture(name="options")
def options_fixture() -> Callable[..., Agent]:
    return options


@pytest.fixture(name="question")
def question_fixture() -> Callable[..., Question]:
    return question


@pytest.fixture
def words() -> type[Words]:
    return Words


def options(server: Running, model: str, **changes: Any) -> Agent:
    llm = LlmSettings(
        model, 0.0, changes.pop("max_tokens", 200), f"{server.url}/v1", call_timeout_s=10.0, max_retries=1,
        attempts=changes.pop("attempts", 2), concurrency=changes.pop("concurrency", 4),
    )  # fmt: skip
    limits = Limits(**changes.pop("limits", {}))
    return Agent("agent", llm, changes.pop("protocol", "native"), limits, **changes)
