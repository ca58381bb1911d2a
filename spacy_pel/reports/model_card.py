"""What a packaged linker says of itself: its KB, its settings and its measures, as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wasabi import MarkdownRenderer

from ..evaluation.reranked import with_ranker

if TYPE_CHECKING:
    from spacy.language import Language

    from ..kb.knowledge_base import KnowledgeBase
    from ..pipeline.linker import PelLinker

MEASURES = (
    *("n_mentions", "n_in_kb", "n_nil"),
    *("recall_at_1", "recall_at_5", "recall_at_64", "seen_recall_at_1", "unseen_recall_at_1"),
    *("all_recall_at_1", "nil_precision", "nil_recall", "nil_f1", "nil_auprc", "nil_base_rate", "link_ece"),
)

BEGIN, END = "<!-- card -->", "<!-- end of the card -->"  # Markdown does not show them

KB_INSIDE = (
    "The names and definitions of the KB are part of this pipeline and come under the licence of their source; whoever "
    "publishes the pipeline publishes them."
)
KB_OUTSIDE = "The KB is not part of this pipeline: name its folder with `linker.set_kb(path)`, once it is loaded."


def model_card(nlp: Language, linker: PelLinker, metrics: dict[str, Any] | None = None) -> str:
    """Sections on the KB of `linker`, with a note on its licence, on its settings, and on what `evaluate` measured.

    Raises:
        PelError: Without a KB.
    """
    card = MarkdownRenderer()
    card.add(card.title(3, "Knowledge base"))
    card.add(card.table(_cells(_about_kb(linker.require_kb())), ["", ""]))
    card.add(KB_INSIDE if linker.save_kb else KB_OUTSIDE)
    card.add(card.title(3, "Entity linking"))
    card.add(card.table(_cells(_settings(nlp, linker)), ["", ""]))
    if metrics is not None:
        card.add(card.title(3, "Measures"))
        card.add(f"Of linking gold mentions in {card.code(metrics.get('corpus', 'not stated'))}:")
        card.add(card.table([(card.code(key), _number(metrics.get(key))) for key in MEASURES], ["", ""]))
        card.add("`python -m spacy pel evaluate --help` says what they are; fractions, not per cent.")
    return card.text


def with_card(notes: str, card: str) -> str:
    """The `notes` of a pipeline with `card` in the place of an earlier one, or behind them."""
    before, _, rest = notes.partition(BEGIN)
    after = rest.partition(END)[2]
    parts = (before.strip(), f"{BEGIN}\n{card.strip()}\n{END}", after.strip())
    return "\n\n".join(part for part in parts if part)


def _about_kb(kb: KnowledgeBase) -> list[tuple[str, str]]:
    notes = [(key.capitalize(), kb.meta.get(key) or "not stated") for key in ("source", "release", "licence")]
    counts = [(what.capitalize(), f"{count:,}") for what, count in kb.meta["counts"].items()]
    indexes = [f"{one.kind}: {one.index_type}, {one.metric}, {one.dim} dimensions" for one in kb.indexes.values()]
    return [*notes, *counts, ("Index", "; ".join(indexes) or "none"), ("On disk", f"{kb.size_bytes / 1e6:,.1f} MB")]


def _settings(nlp: Language, linker: PelLinker) -> list[tuple[str, str]]:
    settings, objective = linker.model.attrs["settings"], linker.objective
    deciding = with_ranker(nlp, linker)  # as `evaluate` measures it
    threshold = "none: nothing is NIL" if deciding.threshold is None else f"{deciding.threshold:.4f}"
    fitted_by = "tune-nil" if deciding is linker else "tune-ranker"
    weights = linker.name_weights
    names = "none" if weights is None else ", ".join(f"{k} {weight:.4f}" for k, weight in weights.as_setting().items())
    if weights is not None and linker.settings.lexical == "tuned" and linker.tuned.name_weights is None:
        names += ", the defaults"
    trained_on = nlp.config["paths"].get("train") or "not stated"
    return [
        ("Trained on", str(trained_on)),
        *((key.replace("_", " ").capitalize(), str(value)) for key, value in settings.items()),
        ("Loss", repr(objective.loss)),
        ("Adversarial", repr(objective.adversarial)),
        ("Negatives", f"{objective.negatives.n}, {objective.negatives.percent_hard:g} % hard, {objective.layout}"),
        ("Vectors", linker.settings.vectors),
        ("Weights of names", names),
        ("NIL threshold", threshold),
        ("Probabilities", f"fitted by {fitted_by}" if deciding.tuned.gives_probabilities else "none"),
    ]


def _cells(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """`rows` with values that end no cell and no row of a table."""
    return [(key, " ".join(value.split()).replace("|", r"\|")) for key, value in rows]


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
