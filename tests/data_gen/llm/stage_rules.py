"""What the scripted server says to the prompts of the stages: a function of the town's number in the question."""

import json
import re

TITLE = re.compile(r"\[BEGIN title [0-9a-f]+\]\n(.*)\n\[END", re.DOTALL)
GIVEN = re.compile(r"\[BEGIN (answer|given) [0-9a-f]+\]\n(.*?)\n\[END", re.DOTALL)
TOWN = re.compile(r"Harrow Town (\d+)")


def town(text):
    return int(TOWN.search(text)[1])


def generate(prompt):
    title = TITLE.search(prompt.text)[1]
    number = town(title)
    assert len(prompt.images) == 1, "one tile a call"
    if number % 7 == 3:
        return json.dumps({"skip": "track_list", "pairs": []})
    span = "as nobody wrote" if number % 5 == 0 else f"fern stone in {1800 + number}"
    fields = {"aliases": [], "source_type": "paragraph", "subject": title}
    first = {"query": f"When was the moss hall of {title} built?", "answer": str(1800 + number), "source_span": span}
    second = {
        "query": f"Of which stone is the moss hall of {title}?",
        "answer": "fern stone",
        "source_span": "fern stone",
    }
    return "```json\n" + json.dumps({"skip": None, "pairs": [first | fields, second | fields]}) + "\n```"


def self_contained(prompt):
    lines = re.findall(r"^(\d+)\. (.*)$", prompt.text.split("[BEGIN questions")[1], re.MULTILINE)
    verdicts = []
    for place, question in lines:
        number, stone = town(question), "stone" in question
        if number % 13 == 5 and (len(lines) > 1 or stone):
            continue  # not mentioned; of the years a second call, alone, decides
        verdicts.append(f"{place}. {'NO' if number % 11 == 4 else 'YES'}")
    return "\n".join(verdicts) or "I would rather not say."


def answer(prompt):
    assert len(prompt.images) == 1, "one tile a call"
    number = town(prompt.text)
    if "Of which stone" in prompt.text:
        return "<think>a hall</think>Fern stone."
    years = {1: "CANNOT_ANSWER", 2: str(1700 + number), 4: f"in the year {1800 + number}"}
    return json.dumps({"answer": years.get(number % 6, str(1800 + number))})


def judge(prompt):
    known = dict(GIVEN.findall(prompt.text))
    assert not prompt.images, "the judge compares texts"
    return "**Verdict:** CORRECT" if known["answer"] in known["given"] else "WRONG"


def natural(prompt):
    return f"Score: {1 + town(prompt.text) % 5}/5"


def text_pairs(prompt):
    number = town(TITLE.search(prompt.text)[1])
    if number % 4 == 1:
        return "SKIP: no facts"
    span = "never written" if number % 4 == 2 else f"fern stone in {1800 + number}"
    return json.dumps({"pairs": [{"query": f"What was built in Harrow Town {number}?", "source_span": span}]})


RULES = [
    ("Write questions that the passage answers", text_pairs),
    ("Write questions that this tile answers", generate),
    ("whether it is self-contained", self_contained),
    ("Answer the question from this tile alone", answer),
    ("whether the given answer says the same", judge),
    ("How natural is the question", natural),
]
