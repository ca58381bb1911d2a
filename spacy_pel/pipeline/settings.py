"""How a `pel_linker` links: each setting once, with its default and what it may be."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from ..checks import (
    check_choice,
    check_count,
    check_flag,
    check_mapping,
    check_text,
    is_number,
    plain,
    shown,
    text_list,
)
from ..errors import PelError
from ..kb.allowed import Allowed
from ..kb.kinds import VECTORS
from ..search.weights import check_lexical

Threshold = Literal["tuned"] | float | None
Vectors = Literal["entity", "names", "both"]
Lexical = Literal["tuned"] | dict[str, float] | None
SECTION = "[components.pel_linker]"
OF_SCISPACY = {"k": "top_k", "max_entities_per_mention": "max_candidates"}  # its names of settings
CONFIG_KEY = re.compile(r"[^:=\s#;\[]([^:=\r\n]*[^:=\s])?")  # as confection reads a key again
MOST_THREADS = 1024  # a system that cannot start so many ends the whole process


@dataclass(frozen=True)
class LinkSettings:
    """The settings of a linker but for its model and its objective. They are read when they are used, so one that is
    set on a linker (`linker.top_k = 16`) holds from then on.

    Attributes:
        top_k: How many candidates of a mention are searched.
        max_candidates: How many of them are kept on the span; at most `top_k`.
        spans_key: The group of `doc.spans` to link; None for the entities, `doc.ents`.
        resolve_abbreviations: Whether the long form of a mention is read in its place, where the text defines it as an
            abbreviation, "long form (LF)". Abbreviations that scispaCy's `abbreviation_detector` has found in a Doc are
            used instead. And whether a mention with another in brackets behind it, or before its own, "lomustine
            (CCNU)", is read by both names: what scores higher counts.
        vectors: Which vectors of the KB are searched, and written by `index`: "entity", one of the text of each entity;
            "names", one of each name, of which the most similar counts; "both".
        lexical: What the names of an entity count beside the similarity, {"ngram": weight, "exact": weight}. "tuned":
            as `spacy pel tune-lexical` stored it, and 1 and 0.3 before; None: nothing, the method of the paper. Where
            both kinds of vectors are searched, "names" is the weight of those of names, 1 unless it is given.
        nil_threshold: A mention under it is NIL. "tuned": what `spacy pel tune-nil` stored, and never NIL before; a
            float: of the best score, in its units; None: never NIL.
        labels_discard: Labels of entities that are NIL without a search.
        types: The KB types that links may have; empty for any.
        types_by_label: The same for single labels of entities.
        with_codes: Vocabularies, as `xrefs` in the KB name them, such as "ICD10CM": links have a code of one of them;
            empty for any entity.
        n_probe: Cells that are searched in a compressed index; None for as many as it was built with.
        exact_up_to: Up to this many entities, a search by sum-of-max or poly-encoders scores all; beyond, those that
            own a vector near to one of the mention's. Training has a number of its own, 20,000.
        search_threads: Threads of a search; None for all that faiss takes.
        overwrite: Whether KB ids that are there are replaced.
        use_gold_ents: Whether training takes the mentions of the reference; False for those predicted entities that
            match one of them.
        save_kb: Whether the KB is saved with the pipeline; False for only its path.

    Raises:
        PelError: For a value that a setting cannot have.
    """

    top_k: int = 64
    max_candidates: int = 5
    spans_key: str | None = None
    resolve_abbreviations: bool = True
    vectors: Vectors = "entity"
    lexical: Lexical = "tuned"
    nil_threshold: Threshold = "tuned"
    labels_discard: Sequence[str] = ()
    types: Sequence[str] = ()
    types_by_label: Mapping[str, Sequence[str]] | None = None
    with_codes: Sequence[str] = ()
    n_probe: int | None = None
    exact_up_to: int = 20_000
    search_threads: int | None = None
    overwrite: bool = True
    use_gold_ents: bool = True
    save_kb: bool = True

    def __post_init__(self) -> None:
        check_count(SECTION, "top_k", self.top_k, least=1)
        check_count(SECTION, "max_candidates", self.max_candidates, least=1)
        check_count(SECTION, "n_probe", self.n_probe, least=1, optional=True)
        check_count(SECTION, "exact_up_to", self.exact_up_to)
        check_count(SECTION, "search_threads", self.search_threads, least=1, most=MOST_THREADS, optional=True)
        for key in ("resolve_abbreviations", "overwrite", "use_gold_ents", "save_kb"):
            check_flag(SECTION, key, getattr(self, key))
        check_choice(SECTION, "vectors", self.vectors, tuple(VECTORS))
        check_text(SECTION, "spans_key", self.spans_key, "name a group of doc.spans", optional=True)
        _set(
            self,
            labels_discard=text_list(SECTION, "labels_discard", self.labels_discard),
            types=text_list(SECTION, "types", self.types),
            types_by_label=_by_label(self.types_by_label),
            with_codes=text_list(SECTION, "with_codes", self.with_codes),
            nil_threshold=plain(self.nil_threshold),
        )
        if self.max_candidates > self.top_k:
            raise PelError(
                f"{SECTION}: max_candidates = {self.max_candidates} is more than the top_k = {self.top_k} that are "
                "searched; raise top_k or lower max_candidates."
            )
        check_lexical(self.lexical)
        if isinstance(self.lexical, dict):
            _set(self, lexical={part: plain(weight) for part, weight in self.lexical.items()})

    def check_threshold(self, similarity: str) -> None:
        """Check the NIL threshold against the scores of `similarity`, "cosine" or "dot".

        Raises:
            PelError: If it cannot be a score.
        """
        value, most = self.nil_threshold, 1.0 if similarity == "cosine" else None
        is_setting = value is None or (isinstance(value, str) and value == "tuned")
        if not (is_setting or is_number(value, least=most and -most, most=most)):
            raise PelError(
                f"{SECTION}: nil_threshold = {value!r} is not a score, and a cosine lies between -1 and 1; make it a "
                'score, "tuned", or null for never NIL.'
            )

    def allowed_for(self, label: str) -> Allowed | None:
        """What the entity of a mention with that label must have; None: any will do."""
        assert self.types_by_label is not None
        allowed = [frozenset(types) for types in (self.types, self.types_by_label.get(label)) if types]
        types = frozenset.intersection(*allowed) if allowed else None
        vocabularies = frozenset(self.with_codes) or None
        return None if types is vocabularies is None else Allowed(types, vocabularies)


SETTINGS = tuple(field.name for field in fields(LinkSettings))


def _by_label(types_by_label: Any) -> dict[str, list[str]]:
    """`types_by_label` with lists, whose labels are keys of a config."""
    check_mapping(SECTION, "types_by_label", types_by_label, '{"LABEL": ["type"]}')
    by_label = dict(types_by_label or {})
    for label in by_label:
        if not CONFIG_KEY.fullmatch(label):
            raise PelError(
                f"{SECTION}: types_by_label has the label {shown(label)}, with which no config could be loaded: a key "
                'there has no ":", "=" or line break, begins with none of "#", ";" and "[", has no space at its ends '
                "and is not empty; give those mentions another label before they are linked."
            )
    return {label: text_list(SECTION, f"types_by_label[{label!r}]", types) for label, types in by_label.items()}


def _set(settings: LinkSettings, **values: Any) -> None:
    for key, value in values.items():
        object.__setattr__(settings, key, value)
