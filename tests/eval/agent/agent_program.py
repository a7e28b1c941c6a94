"""An agent at work, for the test that kills it: python agent_program.py URL OUT QUESTIONS."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tilewright.configs.digests import plain
from tilewright.configs.items import ItemError
from tilewright.data_gen.llm import LlmSettings
from tilewright.eval.agent.options import Agent, Limits
from tilewright.eval.agent.reader import AgentReader
from tilewright.eval.cache import Cache
from tilewright.eval.deliveries import Delivery
from tilewright.eval.parts import Asked, Found, Item, Question


class Echo:
    """Finds one text for any query: the query."""

    title, identity, facts, page_of = "echo", "echo", dict[str, object](), dict[str, str]()
    items_failed, sees_gold, closed_book = 0, False, False

    def item(self, item_id: str) -> Item:
        return Item(item_id, "p", "text_chunk", f"founded in {1000 + int(item_id)}")

    def search(self, questions: Sequence[Question], depth: int) -> Found:
        return Found({one.query_id: ((str(sum(one.query.encode()) % 1000), 1.0),) for one in questions})


def run(url: str, out: Path, count: int) -> None:
    """Ask about so many towns and write values.json."""
    llm = LlmSettings("looping", 0.0, 50, url, seed=1, concurrency=4, call_timeout_s=20.0)
    agent = Agent("agent", llm, "native", Limits(searches=3))
    reader = AgentReader(agent).using(Echo(), Delivery("as_is", lambda item: (item, None)), 1)
    asked = [Asked(Question(f"q{n}", f"When was town {n} founded?", ("x",)), ()) for n in range(count)]
    cache = Cache(out)
    part = cache.part("answers", "agent")

    def work(todo: Sequence[Asked]) -> Iterator[tuple[Asked, Any]]:
        for one, value in reader.answer(todo, part):
            yield one, value if isinstance(value, ItemError) else plain(value) | {"seconds": 0.0}

    with cache.locked():
        values, errors = cache.values(part, "agent", asked, lambda one: one.key(False), work)
    (out / "values.json").write_text(json.dumps([values, errors], sort_keys=True))


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
