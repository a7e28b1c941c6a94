"""Questions from a real model: one tile's picture, or its text -> pairs or SKIP, by a versioned prompt."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.data_gen.annotator import Generated, RawPair, Skip
from tilewright.data_gen.evidence_balance import check_kind_shares
from tilewright.data_gen.llm import Answered, Client, Unusable
from tilewright.data_gen.prompts import load_prompt
from tilewright.data_gen.records import Tile
from tilewright.data_gen.replies import parse_pairs
from tilewright.data_gen.tile_request import check_prompt_of_tile, is_for_texts, tile_request

SPAN_NOT_ON_TILE = "span_not_on_tile"


@dataclass(frozen=True)
class GenerationSettings:
    """How a model is asked for questions.

    ``prompt``: a shipped template: generate.v1 with the tile's picture or, for a model that can't see, generate_text.v1
    with its DOM text. ``language``: of questions and answers. ``kind_shares``: weights of the kinds of evidence
    (paragraph, infobox, table, list, image) that the tiles are asked about; empty leaves it to the model.
    ``span``: ``verbatim`` drops a pair whose source span isn't text of the tile (never for pictures, nor on tiles
    without DOM text); ``any`` keeps it.
    """

    prompt: str = "generate.v1"
    language: str = "English"
    kind_shares: Mapping[str, float] = field(default_factory=dict)
    span: str = "verbatim"

    @property
    def sees_pictures(self) -> bool:
        """Whether the model is sent pictures."""
        return not is_for_texts(self.prompt)

    def __post_init__(self) -> None:
        check_kind_shares(self.kind_shares)
        check_prompt_of_tile("prompt", self.prompt, "generate")
        if self.kind_shares.get("image") and not self.sees_pictures:
            raise ValueError(
                f"kind_shares.image: wanted a prompt with pictures, for a text shows none: {self.prompt!r}"
            )
        check_language(self.language)
        if self.span not in ("verbatim", "any"):
            raise ValueError(f"span: wanted verbatim or any, found {self.span!r}")


def check_language(language: str) -> None:
    """Raise ValueError unless ``language`` can stand in a sentence of a prompt."""
    if not language.strip() or not language.isprintable():
        raise ValueError(f"language: wanted the name of a language, found {language!r}")


class LlmGenerator:
    """Asks about tiles; ``name`` is model and prompt, for pairs and manifests."""

    def __init__(self, model: str, settings: GenerationSettings, max_pairs: int) -> None:
        self._settings, self._max_pairs = settings, max_pairs
        self._prompt = load_prompt(settings.prompt)
        self.name = f"{model}/{self._prompt.identity}"

    async def generate(self, client: Client, tile: Tile, kind: str | None) -> Generated | Skip:
        """Pairs about ``tile``, preferably on evidence of ``kind``, or why there are none.

        ``tile`` has its image if the settings' ``sees_pictures``.
        Raises what ``client.complete`` raises. A reply that can't be read is a Skip named after the reason.
        """
        request = tile_request(
            self._prompt,
            "generate",
            tile,
            language=self._settings.language,
            max_pairs=str(self._max_pairs),
            wanted_kind=_wish(kind),
            title=tile.title,
        )

        def parse(reply: str) -> Generated | Skip | None:
            return parse_pairs(reply, self._max_pairs)

        found: Answered[Generated | Skip] | Unusable = await client.complete(request, parse)
        if isinstance(found, Unusable):
            return Skip(f"reply_{found.reason}")
        if isinstance(found.value, Skip) or self._settings.span == "any":
            return found.value
        return _with_spans(found.value, tile)


def _wish(kind: str | None) -> str:
    """The sentence about the wanted kind of evidence; "" for none."""
    if kind is None:
        return ""
    shown = "a picture, map, diagram or photograph" if kind == "image" else f"a {kind}"
    return f"Prefer a question whose answer stands in {shown}, if this tile has one that suits."


def _with_spans(found: Generated, tile: Tile) -> Generated:
    """Those pairs whose span is text of the tile, white space and case aside; the others are counted."""
    shown = _squeezed(tile.text)
    kept = tuple(pair for pair in found.pairs if not shown or _spans(pair, shown))
    dropped = Counter(found.dropped)
    dropped[SPAN_NOT_ON_TILE] += len(found.pairs) - len(kept)
    return Generated(kept, dict(+dropped))


def _spans(pair: RawPair, shown: str) -> bool:
    return pair.source_type == "image" or _squeezed(pair.source_span) in shown


def _squeezed(text: str) -> str:
    return "".join(text.split()).casefold()
