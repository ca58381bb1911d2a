"""What was tuned on annotated mentions, as one value that is saved with a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..kb.entity import NIL
from ..mentions.links import Link, RankedIds
from ..search.weights import NameWeights
from .calibration import Calibration

if TYPE_CHECKING:
    from ..kb.knowledge_base import KnowledgeBase

CHANGED = 0.1  # of the entities a threshold was tuned with: with so many more or fewer it is another KB


class TuningContext(NamedTuple):
    """What a NIL threshold was tuned with: the KB, and how scores were made.

    Attributes:
        build: The id of the KB's build.
        path: Where the KB was.
        entities: How many it had.
        lexical: What names counted, as a dict of weights; None for nothing.
        vectors: Which vectors were searched.
        precision: How mentions were encoded: "int8" or "float".
    """

    build: str
    path: str
    entities: int
    lexical: dict[str, float] | None
    vectors: str = "entity"
    precision: str = "float"

    @classmethod
    def of(
        cls, kb: KnowledgeBase, weights: NameWeights | None, vectors: str = "entity", precision: str = "auto"
    ) -> TuningContext:
        """The context that `kb`, the weights in force and the settings `vectors` and `precision` make."""
        lexical = None if weights is None else weights.as_setting()
        scores = "int8" if precision == "int8" else "float"
        return cls(kb.meta["build"], str(kb.path), len(kb), lexical, vectors, scores)

    @classmethod
    def of_linker(cls, linker: Any, weights: NameWeights | None) -> TuningContext:
        """The context that a linker, with its KB, and the weights in force make."""
        return cls.of(linker.kb, weights, linker.settings.vectors, linker.model.attrs["settings"]["precision"])

    def is_another_kb(self, other: TuningContext) -> bool:
        """Whether the KB of `other` is another build, or has changed by a tenth."""
        return self.build != other.build or abs(self.entities - other.entities) > CHANGED * self.entities

    def __str__(self) -> str:
        return f"the KB {self.path} ({self.entities:,} entities, build {self.build:.8})"


@dataclass(frozen=True)
class Tuned:
    """What was tuned; None where nothing was.

    Attributes:
        name_weights: What names count beside the similarity of vectors (`tune-lexical`).
        nil_threshold: The score under which a mention is NIL (`tune-nil`).
        calibration: From scores to probabilities (`tune-nil`).
        context: What the threshold and the calibration were tuned with. Older pipelines tell less, or nothing.
        names_context: What the weights of names were fitted with. Older pipelines tell nothing.
    """

    name_weights: NameWeights | None = None
    nil_threshold: float | None = None
    calibration: Calibration | None = None
    context: TuningContext | None = None
    names_context: TuningContext | None = None

    KEYS: ClassVar[tuple[str, ...]] = (  # of the file `cfg`
        "lexical",
        "nil_threshold",
        "calibration",
        "tuned_with",
        "lexical_tuned_with",
    )

    def without_nil(self) -> Tuned:
        """What is left where scores, or the KB, are others."""
        return replace(self, nil_threshold=None, calibration=None, context=None)

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

    def complaints(self, here: TuningContext, name: str) -> Iterator[str]:
        """Why the NIL threshold of the component `name` does not fit what it has now."""
        if self.context is None:
            return
        if self.context.is_another_kb(here):
            yield (
                f"The NIL threshold of {name} was tuned with {self.context}, and it now has {here}: run `spacy pel "
                "tune-nil` again."
            )
        for key in ("lexical", "vectors", "precision"):
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
            *(None if one is None else one._asdict() for one in (self.context, self.names_context)),
        )
        return {key: value for key, value in zip(self.KEYS, values, strict=True) if value is not None}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Tuned:
        """Read what `to_dict` gave, or an older pipeline wrote; other keys are ignored."""
        lexical, threshold, calibration, *contexts = (stored.get(key) for key in cls.KEYS)
        return cls(
            None if lexical is None else NameWeights(**lexical),
            threshold,
            None if calibration is None else Calibration(*calibration),
            *(None if one is None else TuningContext(**{"lexical": None} | one) for one in contexts),
        )


def decide(candidates: RankedIds, threshold: float | None, calibration: Calibration | None) -> Link:
    """Link a mention to the first of its candidates, or to NIL where it has none or their best score is under the
    `threshold`."""
    if not candidates:
        return Link(NIL, [])
    best, score = candidates[0]
    is_nil = threshold is not None and score < threshold
    probability = None if calibration is None else calibration.probability(score)
    return Link(NIL if is_nil else best, candidates, probability)
