"""Text of pages made safe to stand in a prompt: it can open or close nothing that we, or a chat template, mark."""

import re
from html import escape

_OURS = "results?|search|answer"
_TEMPLATES = (
    "think|thinking|tools?|tool_calls?|tool_responses?|function|function_calls?|function_results?|invoke|parameter"
    r"|start_of_turn|end_of_turn|start_of_image|bos|eos|eop|sop|eot|pad|unk|s|seed:\w+|unused\d+|system|user|assistant"
)
_WORDS = "INST|SYSTEM_PROMPT|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|AVAILABLE_TOOLS|ARGS|CALL_ID|THINK|IMG|gMASK"
_ANGLE = re.compile(rf"<(?=[|｜]|</?SYS>>|\s*/?\s*(?:{_OURS})\b|/?(?:{_TEMPLATES})[\s/>=])", re.IGNORECASE)
_SQUARE = re.compile(rf"\[(?=/?(?:{_WORDS})\])", re.IGNORECASE)


def defused(text: str) -> tuple[str, int]:
    """(``text`` with every opening mark of a delimiter written as an entity, how many there were).

    Delimiters are our own labels (``<result>``, ``<search>``, ``<answer>``) and the tokens by which chat templates part
    turns, tools and thoughts (``<|im_end|>``, ``<end_of_turn>``, ``<tool_response>``, ``[/INST]``): servers read those
    as tokens wherever they stand. All else stays as it is. Idempotent.
    """
    text, angles = _ANGLE.subn("&lt;", text)
    text, squares = _SQUARE.subn("&#91;", text)
    return text, angles + squares


def attribute(text: str) -> str:
    """``text`` as the value of an attribute: on one line, without quotes and angle brackets."""
    return escape(" ".join(text.split()), quote=True).replace("[", "&#91;")
