"""Text to token rows: mention windows `[CLS] left [Ms] mention [Me] right [SEP]` and entity rows.

Rows are made in batches by the tokenizer's Rust backend. A document is tokenised once, however many mentions it has,
and every window is a slice of that; only where a mention begins or ends inside a word are the characters around it
tokenised by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from spacy.tokens import Span
from spacy.util import minibatch

from ..checks import check_choice, check_count, refused
from ..errors import PelError
from ..kb.entity import Entity
from .documents import rows_of_documents, rows_of_names
from .lent_rows import rows_of_states
from .token_rows import Readable, Rows, TokenRows
from .tokenised_text import TokenisedText

MENTION_START, MENTION_END, TITLE_END = "[Ms]", "[Me]", "[ENT]"
MARKERS = (MENTION_START, MENTION_END, TITLE_END)
TEMPLATES = ("biomedical", "general")
ALIASES = ("never", "fallback", "first")
MENTIONS = ("windows", "document")
LENT = "transformer"  # how mentions are read from what a `transformer` pipe lends
ENTITIES_AT_ONCE = 1024  # so that a bar moves every few seconds
SECTION = "[components.pel_linker.model]"
SHORTEST_MENTION, SHORTEST_ENTITY = 8, 4  # rows, in tokens
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class RowSettings:
    """What decides the rows, and so the vectors.

    Attributes:
        mention_length: The longest mention row, in tokens.
        entity_length: The longest entity row, in tokens.
        entity_template: One of `TEMPLATES`.
        aliases: One of `ALIASES`.
        context: The most tokens of context on either side of a mention; None: as many as there is room for.
        mentions: One of `MENTIONS`, or `LENT`.
        section: Of the config that the settings are of.

    Raises:
        PelError: A setting is out of its range.
    """

    mention_length: int
    entity_length: int
    entity_template: str
    aliases: str
    context: int | None = None
    mentions: str = "windows"
    section: str = SECTION

    def __post_init__(self) -> None:
        section = self.section
        check_count(section, "context", self.context, optional=True, hint=" for all that fits")
        check_count(section, "mention_length", self.mention_length, least=SHORTEST_MENTION)
        check_count(section, "entity_length", self.entity_length, least=SHORTEST_ENTITY)
        check_choice(section, "entity_template", self.entity_template, TEMPLATES)
        check_choice(section, "aliases", self.aliases, ALIASES)
        check_choice(section, "mentions", self.mentions, (*MENTIONS, LENT))
        if self.mentions == "document" and self.context is not None:
            raise refused(
                section, "context", self.context, 'leave it out: with mentions = "document" all of a window is read'
            )

    def check_reads_names(self) -> None:
        """Check that names can be read as mentions.

        Raises:
            PelError: Mentions are read from what a `transformer` pipe makes of Docs.
        """
        if self.mentions == LENT:
            raise PelError(
                "Names of a KB cannot be read with spacy_pel.TransformerListener.v1: its mentions are read by the "
                'transformer pipe, in their Docs. Search with vectors = "entity", and tune on a corpus.'
            )


class RowBuilder:
    """Makes the token rows of mentions and entities.

    Attributes:
        tokenizer: A fast Hugging Face tokenizer that knows the three marker tokens (see `add_markers`).
        settings: What decides the rows.
        pad: The token id of the padding.
        markers: The token ids of `[Ms]` and `[Me]`.
    """

    def __init__(self, tokenizer: Any, settings: RowSettings) -> None:
        self.tokenizer = tokenizer
        self.settings = settings
        self.pad: int = tokenizer.pad_token_id or 0
        self._cls = [_token_id(tokenizer, "cls_token")]
        self._sep = [_token_id(tokenizer, "sep_token")]
        start, end, title_end = tokenizer.convert_tokens_to_ids(list(MARKERS))
        self.markers: tuple[int, int] = (start, end)
        self._start, self._end, self._title_end = [start], [end], [title_end]
        self._backend = tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        self._backend.encode_special_tokens = True  # a "[SEP]" in a text is text

    def mentions(self, spans: Sequence[Span]) -> Readable:
        """Make the rows, of at most `mention_length` tokens, that n spans are read in: one each, or windows of their
        documents, or none where a `transformer` pipe has read these. A span without a word piece has length 0."""
        if self.settings.mentions == LENT:
            return rows_of_states(spans)
        if self.settings.mentions == "windows":
            return self.windows(spans)
        return rows_of_documents(spans, self._encoded, self.settings.mention_length, *self._cls, *self._sep)

    def windows(self, spans: Sequence[Span]) -> TokenRows:
        """Make one row a span, whatever the setting: a window of its document, with the span between markers."""
        docs = {id(span.doc): span.doc for span in spans}
        texts = [doc.text for doc in docs.values()]  # which joins all tokens each time
        reach = self.settings.mention_length
        tokenised = {
            key: TokenisedText(text, encoding, reach)
            for key, text, encoding in zip(docs, texts, self._encoded(texts), strict=True)
        }
        places = [(tokenised[id(span.doc)], span.start_char, span.end_char) for span in spans]
        parted = [text.split(start, end) for text, start, end in places]
        crossed = [
            text.characters(start, end) for (text, start, end), own in zip(places, parted, strict=True) if not own
        ]
        pieces = (encoding.ids for encoding in self._encoded(part for parts in crossed for part in parts))
        return TokenRows.from_lists([self._window(*(own or islice(pieces, 3))) for own in parted])

    def names(self, names: Sequence[str]) -> Rows:
        """Make one row a name, read as a mention that stands alone, of at most `mention_length` tokens. A name without
        a word piece gets a row too.

        Raises:
            PelError: See `RowSettings.check_reads_names`.
        """
        self.settings.check_reads_names()
        if self.settings.mentions == "document":
            return rows_of_names(names, self._encoded, self.settings.mention_length, *self._cls, *self._sep)
        nothing = [*self._cls, *self._start, *self._end, *self._sep]
        return TokenRows.from_lists([self._window([], own.ids, []) or nothing for own in self._encoded(names)])

    def _encoded(self, texts: Iterable[str]) -> list[Any]:
        return self._backend.encode_batch(list(texts), add_special_tokens=False)

    def _window(self, left: list[int], mention: list[int], right: list[int]) -> list[int]:
        if not mention:
            return []
        if self.settings.context is not None:
            left, right = left[max(len(left) - self.settings.context, 0) :], right[: self.settings.context]
        left, mention, right = fitted(left, mention, right, self.settings.mention_length - 4)
        return [*self._cls, *left, *self._start, *mention, *self._end, *right, *self._sep]

    def entities(self, entities: Iterable[Entity]) -> TokenRows:
        """Make one row an entity, of at most `entity_length` tokens."""
        blocks = minibatch(entities, ENTITIES_AT_ONCE)
        return TokenRows.concatenate(self._entity_block(block) for block in blocks)

    def _entity_block(self, entities: list[Entity]) -> TokenRows:
        fields = [self._fields(entity) for entity in entities]
        texts = [text for row in fields for text in row]
        codes = iter(self._encoded(texts))
        return TokenRows.from_lists([self._entity([next(codes).ids for _ in row]) for row in fields])

    def _fields(self, entity: Entity) -> list[str]:
        description = describe(entity, self.settings.aliases)
        if self.settings.entity_template == "general":
            return [entity.name, description]
        return [entity.name, ", ".join(entity.type_names or entity.types), description]

    def _entity(self, fields: list[list[int]]) -> list[int]:
        separator = self._title_end if self.settings.entity_template == "general" else self._sep
        row = list(self._cls)
        for field in fields[:-1]:
            row += field + separator
        row += fields[-1]
        return row[: self.settings.entity_length - 1] + self._sep


def fitted(left: list[int], mention: list[int], right: list[int], room: int) -> tuple[list[int], list[int], list[int]]:
    """Cut the tokens of a mention, and those around it, to `room` in all: half of what the mention leaves is for either
    side, and what one side does not need for the other."""
    mention = mention[:room]
    room -= len(mention)
    n_right = min(len(right), max(room - len(left), room - room // 2))
    n_left = min(len(left), room - n_right)
    return left[len(left) - n_left :], mention, right[:n_right]


def describe(entity: Entity, aliases: str) -> str:
    """Return the description field of an entity row.

    Args:
        entity: A record.
        aliases: "never" leaves them out, "fallback" puts them where there is no definition, "first" puts them before
            it.
    """
    if aliases == "never" or (aliases == "fallback" and entity.definition):
        return entity.definition
    names = "; ".join(_distinct(entity.name, entity.aliases))
    return f"{names}. {entity.definition}" if names and entity.definition else names or entity.definition


def _distinct(name: str, aliases: Iterable[str]) -> Iterator[str]:
    """Yield the aliases that are more than the same words in another order ("Disease, Skin" beside "Skin Disease")."""
    seen = {words_of(name)}
    for alias in aliases:
        words = words_of(alias)
        if words not in seen:
            seen.add(words)
            yield alias


def words_of(name: str) -> frozenset[str]:
    """Return the words of a name, case aside: those of "Skin Disease" and "Disease, Skin" are the same."""
    return frozenset(WORD.findall(name.casefold()))


def add_markers(tokenizer: Any) -> None:
    """Add `[Ms]`, `[Me]` and `[ENT]` as special tokens.

    Raises:
        PelError: The tokenizer has no Rust backend.
    """
    if not tokenizer.is_fast:
        raise PelError(
            f"The tokenizer {type(tokenizer).__name__} has no fast version; save one with tokenizer.json beside the "
            "encoder, or name another encoder in the component's encoder_loader."
        )
    tokenizer.add_special_tokens({"additional_special_tokens": list(MARKERS)}, replace_additional_special_tokens=False)


def _token_id(tokenizer: Any, name: str) -> int:
    token = getattr(tokenizer, f"{name}_id")
    if token is None:
        raise PelError(
            f"The tokenizer {type(tokenizer).__name__} has no {name}; the encoder named in the "
            "component's encoder_loader must be of BERT's kind."
        )
    return token
