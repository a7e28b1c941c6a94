"""A stage of two steps an item for the tests that kill it: python stage_program.py URL OUT ITEMS [key=value ...]."""

import json
import sys
from pathlib import Path
from typing import Any

from tilewright.configs.items import process_items
from tilewright.data_gen.llm import Answered, BatchSettings, Client, LlmSettings, Prices, Request, Session


def echo(text: str) -> str | None:
    return text if text.startswith("ECHO ") and len(text) == 17 else None


async def ask(client: Client, number: int) -> dict[str, Any]:
    """Generate, then judge what was generated."""
    made = await client.complete(Request("generate", (f"Ask about {number}.",), system="You ask."), echo)
    if not isinstance(made, Answered):
        return {"dropped": made.reason}
    judged = await client.complete(Request("judge", (f"Is {made.value} right for {number}?",)), echo)
    return {"made": made.value, "judged": judged.value if isinstance(judged, Answered) else judged.reason}


def main() -> None:
    url, out, items, *changes = sys.argv[1:]
    values: dict[str, Any] = {"temperature": 0.0, "max_tokens": 50, "seed": 3, "concurrency": 16, "call_timeout_s": 1.2}
    values |= {"batch": BatchSettings(size=100, poll_s=0.05), "prices": Prices(1.0, 2.0), "max_retries": 10}
    values |= {key: json.loads(value) for key, _, value in (change.partition("=") for change in changes)}
    folder = Path(out)
    folder.mkdir(exist_ok=True)
    with Session(LlmSettings("m", base_url=url, **values), folder) as session:
        found = process_items("ask", range(int(items)), str, lambda todo: session.run(todo, ask), folder)
    lines = (json.dumps({"item": key, **value}, sort_keys=True) + "\n" for key, value in found.items())
    (folder / "values.jsonl").write_text("".join(lines))


if __name__ == "__main__":
    main()
