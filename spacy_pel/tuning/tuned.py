"""What was tuned on annotated mentions, as one value that is saved with a pipeline."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from ..kb.entity import NIL
from ..mentions.links import Link
from ..search.evidence import evidence_of
from ..search.search import Found
from ..search.weights import NameWeights
from .calibration import Calibration
from .decision import Decision, strongest

CHANGED = 0.1  # of the entities a threshold was tuned with: with so many more or fewer it is another KB


def scored_in(precision: str) -> str:
    """What scores of that `precision` are computed in: "float", "int8" or "openvino-int8". Those of one kind agree."""
    return precision if precision.endswith("int8") else "float"


class TuningContext(NamedTuple):
    """What a NIL threshold was tuned with: the KB, and how scores were made.

    Attributes:
        build: The id of the KB's build.
        entities: How many it had.
        lexical: What names counted, as a dict of weights; None for nothing.
        vectors: Which vectors were searched.
        precision: How mentions were encoded, see `scored_in`.
        top_k: How many candidates were searched; None: not known.
        path: Where the KB is; not written, and so empty where this was read.
    """

    build: str
    entities: int
    lexical: dict[str, float] | None
    vectors: str = "entity"
    precision: str = "float"
    top_k: int | None = None
    path: str = ""

    @classmethod
    def of_linker(cls, linker: Any, weights: NameWeights | None) -> TuningContext:
        """The context that a linker, with its KB, and the weights in force make."""
        kb, settings = linker.kb, linker.settings
        lexical = None if weights is None else weights.as_setting()
        precision = scored_in(linker.model.attrs["settings"]["precision"])
        return cls(kb.meta["build"], len(kb), lexical, settings.vectors, precision, settings.top_k, str(kb.path))

    def to_dict(self) -> dict[str, Any]:
        """What is written of it; nothing of what is not known, nor where the KB is."""
        left_out = {"path"} if self.top_k is not None else {"path", "top_k"}
        return {key: value for key, value in self._asdict().items() if key not in left_out}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> TuningContext:
        """Read what `to_dict` gave, or an older pipeline wrote, which tells less, or where its KB was."""
        return cls(**{"lexical": None} | stored | {"path": ""})

    def kb_complaint(self, here: TuningContext) -> str | None:
        """With what KB it was tuned, where that of `here` is another build or has changed by a tenth; else None."""
        if self.build != here.build:
            return f"with {self}"
        if abs(self.entities - here.entities) > CHANGED * self.entities:
            return f"when its KB had {self.entities:,} entities"
        return None

    def __str__(self) -> str:
        kb = f"the KB {self.path}" if self.path else "a KB"
        return f"{kb} ({self.entities:,} entities, build {self.build:.8})"


@dataclass(frozen=True)
class Tuned:
    """What was tuned; None where nothing was.

    Attributes:
        name_weights: What names count beside the similarity of vectors (`tune-lexical`).
        nil_threshold: What a mention is NIL under (`tune-nil`): a probability of `decision`, or without one a score.
        calibration: From scores to probabilities (`tune-nil`), where there is no `decision`.
        context: What the threshold and the calibration were tuned with. Older pipelines tell less, or nothing.
        names_context: What the weights of names were fitted with. Older pipelines tell nothing.
        decision: From all that a search says of a mention to probabilities (`tune-nil`).
    """

    name_weights: NameWeights | None = None
    nil_threshold: float | None = None
    calibration: Calibration | None = None
    context: TuningContext | None = None
    names_context: TuningContext | None = None
    decision: Decision | None = None

    KEYS: ClassVar[tuple[str, ...]] = (  # of the file `cfg`
        "lexical",
        "nil_threshold",
        "calibration",
        "tuned_with",
        "lexical_tuned_with",
        "decision",
    )

    @property
    def gives_probabilities(self) -> bool:
        """Whether links have one."""
        return self.calibration is not None or self.decision is not None

    def without_nil(self) -> Tuned:
        """What is left where scores, or the KB, are others."""
        return replace(self, nil_threshold=None, calibration=None, context=None, decision=None)

    def without_names(self) -> Tuned:
        """What is left where the weights of names are of no use."""
        return replace(self, name_weights=None, names_context=None)

    def names_complaint(self, here: TuningContext, name: str) -> str | None:
        """Why the weights of names of the component `name` are of no use with what it has now; None: they are."""
        then = self.names_context
        if then is None or (then.build, then.vectors) == (here.build, here.vectors):
            return None
        if then.build != here.build:
            fitted, now = str(then), str(here)
        else:
            fitted, now = f'vectors = "{then.vectors}"', f'vectors = "{here.vectors}"'
        return (
            f"Dropped the weights of names of {name}: they were fitted for {fitted}, and it now has {now}. The "
            "defaults count; run `spacy pel tune-lexical` to fit them anew."
        )

    def precision_complaint(self, here: TuningContext, name: str) -> str | None:
        """Why the NIL threshold and the probabilities of the component `name` are refused; None: they are not."""
        then = "float" if self.context is None else self.context.precision
        if self.context is None or then == here.precision:
            return None
        return (
            f"Dropped the NIL threshold and the probabilities of {name}: they were tuned for scores in {then}, and it "
            f"now computes in {here.precision}. Run `spacy pel tune-nil` on the pipeline saved in that precision."
        )

    def complaints(self, here: TuningContext, name: str) -> Iterator[str]:
        """Why the NIL threshold of the component `name` does not fit what it has now."""
        if self.context is None:
            return
        if (complaint := self.context.kb_complaint(here)) is not None:
            yield (
                f"The NIL threshold of {name} was tuned {complaint}, and it now has {here}: run `spacy pel tune-nil` "
                "again."
            )
        searched = () if self.decision is None or self.context.top_k is None else ("top_k",)
        for key in ("lexical", "vectors", *searched):
            then, now = getattr(self.context, key), getattr(here, key)
            if then != now:
                yield (
                    f"The NIL threshold of {name} was tuned for scores with {key} = {then}, and they are now with "
                    f"{now}: run `spacy pel tune-nil` again."
                )

    def to_dict(self) -> dict[str, Any]:
        """What is written to the file `cfg` of a component."""
        values = (
            None if self.name_weights is None else self.name_weights.as_setting(),
            self.nil_threshold,
            None if self.calibration is None else list(self.calibration),
            *(None if one is None else one.to_dict() for one in (self.context, self.names_context)),
            None if self.decision is None else self.decision.to_dict(),
        )
        return {key: value for key, value in zip(self.KEYS, values, strict=True) if value is not None}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Tuned:
        """Read what `to_dict` gave, or an older pipeline wrote; other keys are ignored. What another version has fitted
        to decide on NIL is dropped, with a warning."""
        lexical, threshold, calibration, context, names_context, decision = (stored.get(key) for key in cls.KEYS)
        tuned = cls(
            None if lexical is None else NameWeights(**lexical),
            threshold,
            None if calibration is None else Calibration(*calibration),
            None if context is None else TuningContext.from_dict(context),
            None if names_context is None else TuningContext.from_dict(names_context),
            None if decision is None else Decision.from_dict(decision),
        )
        if decision is None or tuned.decision is not None:
            return tuned
        warnings.warn("Dropped the NIL threshold, which another version tuned: run `spacy pel tune-nil`.", stacklevel=2)
        return tuned.without_nil()


def decide(found: Sequence[Found], tuned: Tuned, threshold: float | None, *, by_score: bool) -> list[Link]:
    """Link each mention to the first of its candidates, or to NIL where it has none or is under the `threshold`, which
    is held against the probability of the tuned decision, if there is one, or its best score (`by_score`)."""
    decision, calibration = tuned.decision, tuned.calibration
    right: list[float | None] = [None] * len(found)
    in_kb = right
    if decision is not None:
        evidence = evidence_of(found)
        right, in_kb = (one.probability(evidence).tolist() for one in (decision.right, decision.in_kb))
    elif calibration is not None:
        right = [calibration.probability(one.top_score) for one in found]
    confidence = [None] * len(found) if by_score else in_kb
    return [_link(*each, threshold) for each in zip(found, right, confidence, strict=True)]


def _link(found: Found, probability: float | None, confidence: float | None, threshold: float | None) -> Link:
    if not found.ids:
        return Link(NIL, [])
    held = found.top_score if confidence is None else confidence
    is_nil = threshold is not None and held < threshold
    return Link(NIL if is_nil else found.ids[0], found.ranked, probability, confidence, found.read.text)


def evidence_for(found: Found, link: Link, tuned: Tuned) -> list[tuple[str, float]]:
    """What says most for and against that the KB has it, as `strongest` gives it; empty where the score decides."""
    if link.confidence is None or tuned.decision is None or found.evidence is None:
        return []
    return strongest(tuned.decision.in_kb, found.evidence)
