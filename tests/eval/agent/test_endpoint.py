"""A search service over real HTTP: results become items, and whatever else comes is a failure."""

import dataclasses
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.urls import page_id
from tilewright.eval.agent.endpoint import EndpointTool
from tilewright.eval.agent.options import SearchEndpoint


def tool(server: Any, kind: str, k: int = 5, **changes: Any) -> EndpointTool:
    return EndpointTool(SearchEndpoint(f"{server.url}/{kind}", timeout_s=5.0, max_retries=1, **changes), k)


def test_results_become_items_of_their_pages(agent_server: Any) -> None:
    text, picture, bare = tool(agent_server, "found").found("when was oslo founded").items
    assert (text.text, text.title, text.source) == ("Oslo was founded in 1705.", "Oslo", "endpoint")
    assert text.page_id == page_id("https://en.wikipedia.org/wiki/Oslo") and text.picture is None
    assert picture.picture is not None and picture.picture.size_px == picture.picture.load().size == (1, 1)
    assert len({text.item_id, picture.item_id, bare.item_id}) == 3 and bare.page_id == bare.item_id
    assert [event["body"] for event in agent_server.events("search") if event["kind"] == "found"][-1] == {
        "query": "when was oslo founded", "k": 5,
    }  # fmt: skip
    assert len(tool(agent_server, "found", k=1).found("x").items) == 1
    assert tool(agent_server, "nothing").found("x").items == ()


def test_searxng_is_asked_by_address(agent_server: Any) -> None:
    (item,) = tool(agent_server, "searxng", form="searxng").found("a & b=c\ud800").items
    assert item.text == "Oslo was founded in 1705." and item.page_id == page_id("https://oslo.example/")
    assert agent_server.events("search")[-1]["path"] == "/searxng?q=a+%26+b%3Dc%3F&format=json"


def test_a_busy_service_is_asked_again(agent_server: Any) -> None:
    assert len(tool(agent_server, "flaky").found("x").items) == 3


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("down", "HTTP 500, after 2 tries"),
        ("refused", "HTTP 403"),
        ("moved", "HTTP 302"),
        ("broken", "wanted JSON"),
        ("nested", "wanted JSON"),
        ("other", "wanted {'results'"),
        ("not_objects", "wanted results with text, title and url"),
        ("numbers", "wanted results with text, title and url"),
        ("blank", "wanted a result with a text or an image"),
        ("bad_image", "wanted an image as base64"),
    ],
)
def test_whatever_is_no_list_of_results_is_a_failure(agent_server: Any, kind: str, said: str) -> None:
    with pytest.raises(ItemError, match=r"^retrieval failed: ") as found:
        tool(agent_server, kind).found("x")
    assert said in str(found.value)


def test_a_long_body_is_a_failure(agent_server: Any) -> None:
    with pytest.raises(ItemError, match=r"longer than max_bytes \(1000\)"):
        tool(agent_server, "huge", max_bytes=1000).found("x")


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(
    agent_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_KEY", "secret-0123456789")
    tool(agent_server, "found", api_key_env="SEARCH_KEY").found("x")
    assert agent_server.events("search")[-1]["key"] == "Bearer secret-0123456789"
    monkeypatch.delenv("SEARCH_KEY")
    with pytest.raises(InputError, match="wanted a key in the environment variable SEARCH_KEY"):
        tool(agent_server, "found", api_key_env="SEARCH_KEY").found("x")


def test_a_service_that_is_not_there_is_a_failure() -> None:
    with pytest.raises(ItemError, match="after 2 tries"):
        EndpointTool(SearchEndpoint("http://127.0.0.1:9/x", max_retries=1), 3).found("x")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://", "http://me:pw@host/", "http://host/?a=b", "host/x"])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"url: wanted"):
        SearchEndpoint(url)


def test_identity_is_the_service_and_k_alone() -> None:
    one = EndpointTool(SearchEndpoint("http://host/x"), 3)
    slow = EndpointTool(dataclasses.replace(one.options, timeout_s=99.0, max_retries=0), 3)
    assert slow.identity == one.identity != EndpointTool(one.options, 4).identity


def test_an_agent_searches_it(ask: Any, agent_server: Any) -> None:
    made = ask("honest", endpoint=SearchEndpoint(f"{agent_server.url}/found"), k=1)
    assert made.one.text == "1705" and made.one.measures["searches"] == 1
    down = ask("honest", endpoint=SearchEndpoint(f"{agent_server.url}/down", max_retries=0))
    assert str(down.one).startswith("retrieval failed: ") and isinstance(down.one, ItemError)
