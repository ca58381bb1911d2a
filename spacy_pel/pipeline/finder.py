"""The `pel_finder` component: the names of a KB, found in texts by its records on disk.

Every `spacy.blank` imports it, so it imports spaCy only.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.pipeline.span_ruler import prioritize_existing_ents_filter, prioritize_new_ents_filter
from spacy.tokens import Doc, Span, SpanGroup
from spacy.util import filter_spans, get_lang_class, minibatch

from ..checks import check_count, check_flag, check_text, text_list
from ..errors import PelError
from ..kb.names.known_names import known_names, only_within, rows_of_forms
from ..kb.names.name_rules import LABEL, MIN_LENGTH, NameRules
from ..kb.names.plurals import plurals
from ..mentions.abbreviations import long_forms
from ..mentions.stretches import stretches
from .upstream import ListenedTo
from .with_settings import WithSettings, errors_name

if TYPE_CHECKING:
    from ..kb.knowledge_base import KnowledgeBase

SECTION = "[components.pel_finder]"
AT_ONCE = 20_000  # stretches of tokens, of which each distinct one is looked up once


@dataclass(frozen=True)
class FinderSettings:
    """How a `pel_finder` finds mentions. Each setting is an attribute of the component too: `finder.min_length = 2`
    holds from then on.

    Attributes:
        label: The label of the spans.
        spans_key: The group of `doc.spans` that gets the spans; None for the entities, `doc.ents`.
        min_length: Names with fewer characters are not looked for.
        max_tokens: Names with more tokens are not found.
        stop_words: Names that are no more than one of these words are not looked for; None for the stop words of the
            pipeline's language.
        overwrite: Whether found spans replace the entities that they overlap, or the group that is there. Otherwise
            what is there stays, with the `attrs` of the group, and what would overlap an entity is dropped.
        types: Only names of entities of these types in the KB are looked for; empty for any.
        linker: The name of the component whose KB has the names.

    Raises:
        PelError: For a value that a setting cannot have.
    """

    label: str = LABEL
    spans_key: str | None = None
    min_length: int = MIN_LENGTH
    max_tokens: int = 10
    stop_words: Sequence[str] | None = None
    overwrite: bool = False
    types: Sequence[str] = ()
    linker: str = "pel_linker"

    def __post_init__(self) -> None:
        check_text(SECTION, "label", self.label, "give the label of the spans")
        check_text(SECTION, "spans_key", self.spans_key, "name a group of doc.spans", optional=True)
        check_count(SECTION, "min_length", self.min_length, least=1)
        check_count(SECTION, "max_tokens", self.max_tokens, least=1)
        if self.stop_words is not None:
            text_list(SECTION, "stop_words", self.stop_words)
        check_flag(SECTION, "overwrite", self.overwrite)
        object.__setattr__(self, "types", text_list(SECTION, "types", self.types))
        check_text(SECTION, "linker", self.linker, "name a component")


SETTINGS = tuple(field.name for field in fields(FinderSettings))


@Language.factory(
    "pel_finder",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config={**asdict(FinderSettings()), "kb": None},
)
def make_finder(
    nlp: Language,
    name: str,
    label: str,
    spans_key: str | None,
    min_length: int,
    max_tokens: int,
    stop_words: list[str] | None,
    overwrite: bool,
    types: list[str],
    linker: str,
    kb: Callable | None,
) -> "PelFinder":
    """Build a `pel_finder`.

    Args:
        nlp: The pipeline.
        name: Of the component.
        kb: `spacy_pel.KBFromDisk.v1`, for a KB of its own; null for that of the linker.

    The other arguments are the settings of `FinderSettings`.

    Raises:
        PelError: A setting cannot be what it is.
    """
    given = locals()
    with errors_name(name, "pel_finder"):
        settings = FinderSettings(**{key: given[key] for key in SETTINGS})
    return PelFinder(nlp, name, settings=settings, kb_loader=kb)


class PelFinder(WithSettings, ListenedTo, Pipe):
    """Finds the names and aliases of a KB in texts: the longest stretches of tokens that are one, case aside and a
    hyphen as good as a space, or in an English text the plural of one; and the abbreviations that a text defines
    for them.

    The KB is that of the linker in the pipeline, or one of its own. It is asked on disk whenever a text is read, so
    the finder knows what was added to the KB since, and no more what was removed.

    Attributes:
        settings: How it finds.
    """

    model = None  # which spaCy wants of what it shows those behind
    setting_names = SETTINGS

    def __init__(
        self,
        nlp: Language,
        name: str = "pel_finder",
        *,
        settings: FinderSettings | None = None,
        kb_loader: Callable[[], "KnowledgeBase"] | None = None,
    ) -> None:
        self.nlp = nlp
        self.name = name
        self.settings = settings or FinderSettings()
        self._kb_loader = kb_loader
        self._own_kb: KnowledgeBase | None = None

    @property
    def kb(self) -> "KnowledgeBase":
        """The KB: its own, or that of the linker behind it; where none of that name is behind it, that of the linker in
        the pipeline that the finder was made in.

        Raises:
            PelError: There is none.
        """
        if self._kb_loader is not None:
            self._own_kb = self._own_kb or self._kb_loader()
            return self._own_kb
        name = self.settings.linker
        linker: Any = self.listener_map.get(name, dict(self.nlp.components).get(name))
        if not hasattr(linker, "require_kb"):
            what = "is no pel_linker" if linker is not None else "is not in the pipeline"
            raise PelError(
                f'{self.name} looks for the names in the KB of "{name}", which {what}: add a '
                f"pel_linker, name yours in [components.{self.name}] linker, or give the finder a KB of its own with "
                f'[components.{self.name}.kb] @misc = "spacy_pel.KBFromDisk.v1".'
            )
        return linker.require_kb()

    def find_listeners(self, component: Any) -> None:
        """Remember a linker behind this one. In a pipeline that has it from another it is another linker."""
        if hasattr(component, "require_kb"):
            self.listener_map = {**self.listener_map, component.name: component}

    @property
    def labels(self) -> tuple[str, ...]:
        """The one label of the spans."""
        return (self.settings.label,)

    def __call__(self, doc: Doc) -> Doc:
        """Find the mentions of a Doc, which stays as it is where an error handler passes over an error."""
        return next(self.pipe([doc]), doc)

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Find the mentions of a stream of Docs.

        Args:
            stream: The Docs.
            batch_size: How many Docs are read at once.

        Yields:
            Each Doc, in order.
        """
        error_handler = self.get_error_handler()
        for docs in minibatch(stream, size=batch_size):
            try:
                for doc, spans in zip(docs, self.find(docs), strict=True):
                    self._annotate(doc, spans)
                yield from docs
            except Exception as error:
                error_handler(self.name, self, docs, error)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write nothing: all is in the config. Warn of settings that are not, since they were set on the component."""
        from .component_files import section_of_config
        from .notices import warn_of_unsaved

        warn_of_unsaved(self.name, self.settings, section_of_config(Path(path)))

    def find(self, docs: Sequence[Doc]) -> list[list[Span]]:
        """Every stretch of tokens that is a name, and every abbreviation that the text defines for one, for each of
        `docs`; they may overlap.

        Raises:
            PelError: There is no KB, or no entity has one of the types.
        """
        found: list[list[Span]] = [[] for _ in docs]
        langs = [doc.lang_ or self.nlp.lang or "" for doc in docs]
        for lang in dict.fromkeys(langs):
            places = [i for i, own in enumerate(langs) if own == lang]
            for i, spans in zip(places, self._find([docs[i] for i in places], lang), strict=True):
                found[i] = spans + self._short_forms(docs[i], spans)
        return found

    def _find(self, docs: Sequence[Doc], lang: str) -> list[list[Span]]:
        """Every stretch of tokens that is a name, for each of `docs`, which are in the language `lang`."""
        settings, kb = self.settings, self.kb
        rules = NameRules(settings.min_length, frozenset(map(str.lower, self._stop_words(lang))))
        found: list[list[Span]] = [[] for _ in docs]
        remaining = ((place, one) for place, doc in enumerate(docs) for one in stretches(doc, settings.max_tokens))
        while batch := list(islice(remaining, AT_ONCE)):
            forms = {one.form for _, one in batch}
            singular = plurals(forms, lang)
            rows = rows_of_forms(forms.union(*singular.values()), kb.records)
            if settings.types:
                rows = only_within(rows, kb.rows_of_types(settings.types))
            named = rows.keys() | {form for form, own in singular.items() if not rows.keys().isdisjoint(own)}
            hits = [(place, one, docs[place][one.start : one.end].text) for place, one in batch if one.form in named]
            names = known_names({text for _, _, text in hits}, rows, kb.records, rules, lang)
            for place, one, text in hits:
                if text in names:
                    found[place].append(Span(docs[place], one.start, one.end, label=settings.label))
        return found

    def _stop_words(self, lang: str) -> Iterable[str]:
        if self.settings.stop_words is not None:
            return self.settings.stop_words
        if lang not in ("", self.nlp.lang):
            with suppress(ImportError):  # a language that spaCy does not know
                return get_lang_class(lang).Defaults.stop_words
        return self.nlp.Defaults.stop_words

    def _short_forms(self, doc: Doc, found: list[Span]) -> list[Span]:
        """The abbreviations of those that are `found`, wherever they stand, as `doc` defines them."""
        there = {(span.start, span.end) for span in found}
        return [
            Span(doc, start, end, label=self.settings.label)
            for (start, end), long in long_forms(doc).items()
            if (long.start, long.end) in there and (start, end) not in there
        ]

    def _annotate(self, doc: Doc, spans: list[Span]) -> None:
        """Put the longest of `spans` on `doc`, of equally long ones the first."""
        key, overwrite = self.settings.spans_key, self.settings.overwrite
        if key is None:
            choose = prioritize_new_ents_filter if overwrite else prioritize_existing_ents_filter
            doc.ents = choose(doc.ents, spans)
            return
        group = doc.spans[key] if key in doc.spans and not overwrite else SpanGroup(doc, name=key)
        there = list(group)
        places = {(span.start, span.end) for span in there}
        new = [span for span in filter_spans(spans) if (span.start, span.end) not in places]
        doc.spans[key] = SpanGroup(doc, name=group.name, attrs=group.attrs, spans=there + new)
