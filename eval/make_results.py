"""Stage: the tables of several evaluations in one place: RESULTS.md and report.html, with what was found in words.

Each part says its protocol, shows tables of one or more finished stages, and then findings. Findings are written by
people, after a run: ``findings_of`` names the identities that they were written from, and where the stages at hand are
others the results say so. At the end stands every stage behind the tables, with identity, time and CPU time, and what
of their inputs is gone or was made anew since: the stage that stands in its place isn't the one behind the tables.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tilewright.configs.lineage import Finished, finished, lineage
from tilewright.configs.stage import Counts, Inputs, Stage, execution, input_path, main, write_atomically
from tilewright.eval.report.markdown_tables import escaped, markdown_of
from tilewright.eval.report.markup import Markup, join, table, tag
from tilewright.eval.report.page import plain_page
from tilewright.eval.results_tables import tables_of
from tilewright.eval.wording import NONE

_SHORT = 12  # of an identity's 64 digits


@dataclass(frozen=True)
class Part:
    """One section. ``folders``: finished stages; ``tables``: names of their tables (``tables_of``), in this order.

    ``protocol``: what was done, before the tables; ``findings``: what came out, after them; paragraphs of plain text
    between blank lines. ``findings_of``: first digits of the identities of ``folders`` that they were written from.
    """

    title: str
    protocol: str
    tables: tuple[str, ...]
    folders: tuple[Path, ...] = execution()
    findings: str = ""
    findings_of: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.folders or not self.tables:
            raise ValueError(f"{self.title!r}: wanted at least one folder and one table")
        if bool(self.findings) != bool(self.findings_of):
            raise ValueError(f"{self.title!r}: wanted `findings` and `findings_of` together, found one of them")


@dataclass(frozen=True)
class Config:
    """Put the ``parts``, by name, under ``title``; ``introduction`` stands before them."""

    out: Path
    title: str
    introduction: str
    parts: dict[str, Part]
    folders: tuple[Path, ...] = input_path(init=False)

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("parts: wanted at least one, found none")
        object.__setattr__(self, "folders", tuple(folder for part in self.parts.values() for folder in part.folders))


def make_results(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write RESULTS.md and report.html. Raises InputError for a folder without the tables that its part names."""
    sections, texts = [], []
    for part in config.parts.values():
        stages = [finished(folder) for folder in part.folders]
        tables = tables_of(part.tables, stages)
        sections += _section(part, stages, tables, config.out)
        texts.append(_text(part, stages, tables))
    behind = lineage(config.folders)
    times = _times(behind)
    lines = [_TIMES, *_replaced(behind)]
    head = [f"# {config.title}", config.introduction.strip(), *texts, "## Stages behind these tables"]
    head += [escaped(line) for line in lines]
    write_atomically(out / "RESULTS.md", "\n\n".join([*head, markdown_of(times)]).rstrip() + "\n")
    body = [*_paragraphs(config.introduction), *sections, tag("h2", "Stages behind these tables")]
    write_atomically(out / "report.html", plain_page(config.title, [*body, *[tag("p", line) for line in lines], times]))
    replaced = sum(len(stage.replaced) for stage in behind)
    return {"parts": len(config.parts), "stages": len(behind), "inputs_replaced": replaced}


_TIMES = (
    "Seconds are of a stage's last try, on the machine and at the load of that time; CPU seconds of all its threads."
)


def _text(part: Part, stages: Sequence[Finished], tables: Sequence[Markup]) -> str:
    found = [f"## {part.title}", part.protocol.strip(), *[markdown_of(one).rstrip() for one in tables]]
    found += [warning] if (warning := _warning(part, stages)) else []
    return "\n\n".join([*found, part.findings.strip(), f"Made by {_made_by(stages)}."]).replace("\n\n\n\n", "\n\n")


def _section(part: Part, stages: Sequence[Finished], tables: Sequence[Markup], out: Path) -> list[Markup]:
    warning = _warning(part, stages)
    links = [
        tag("a", f"report of {stage.folder.name}", href=_link(stage.folder / "report.html", out))
        for stage in stages
        if (stage.folder / "report.html").is_file()
    ]
    return [
        tag("h2", part.title),
        *_paragraphs(part.protocol),
        *tables,
        *([tag("p", warning, class_="warn")] if warning else []),
        *_paragraphs(part.findings),
        tag("p", f"Made by {_made_by(stages)}. ", join(links, ", "), class_="note"),
    ]


def _link(path: Path, out: Path) -> str:
    """``path`` as seen from ``out``, as an address."""
    return quote(os.path.relpath(path.resolve(), out.resolve()))


def _paragraphs(text: str) -> list[Markup]:
    return [tag("p", " ".join(block.split())) for block in text.split("\n\n") if block.strip()]


def _warning(part: Part, stages: Sequence[Finished]) -> str:
    """That the findings are of another run; empty if they are of this one, or there are none."""
    if not part.findings:
        return ""
    same = len(part.findings_of) == len(stages) and all(
        len(wanted) >= _SHORT and stage.identity.startswith(wanted)
        for wanted, stage in zip(part.findings_of, stages, strict=True)
    )
    return "" if same else f"The words below were written from another run ({', '.join(part.findings_of)}), not this."


def _made_by(stages: Sequence[Finished]) -> str:
    return ", ".join(f"{stage.stage} {stage.identity[:_SHORT]}" for stage in stages)


def _times(stages: Sequence[Finished]) -> Markup:
    rows = [[stage.stage, _place(stage), stage.identity[:_SHORT], *_used(stage)] for stage in stages]
    sums = _sums(stages)
    rows.append(["all", "", "", f"{sums['seconds']:.0f}", f"{sums['cpu_seconds']:.0f}"])
    return table(["Stage", "Folder", "Identity", "Seconds", "CPU seconds"], rows, "Time", numbers_from=3)


def _replaced(stages: Sequence[Finished]) -> list[str]:
    """A sentence on the inputs that are no longer what a stage was made from; none where all are."""
    said = [f"{_place(stage)} ({', '.join(stage.replaced)})" for stage in stages if stage.replaced]
    return [f"Inputs that are gone or were made anew since: of {'; '.join(said)}."] if said else []


def _place(stage: Finished) -> str:
    return "/".join(stage.folder.parts[-2:])


def _used(stage: Finished) -> list[str]:
    facts = stage.manifest["provenance"]
    return [f"{facts[name]:.0f}" if name in facts else NONE for name in ("seconds", "cpu_seconds")]


def _sums(stages: Sequence[Finished]) -> dict[str, float]:
    facts = [stage.manifest["provenance"] for stage in stages]
    return {name: round(sum(one.get(name, 0.0) for one in facts), 1) for name in ("seconds", "cpu_seconds")}


def show(out: Path) -> None:
    """Print where the results are."""
    print(f"Results: {out / 'RESULTS.md'}\nReport: {out / 'report.html'}")


STAGE = Stage("make_results", Config, make_results, show=show)

if __name__ == "__main__":
    main(STAGE)
