"""The registered factory `pel_linker`: what the config says, as a linker.

It is imported by every `spacy.blank`, so it imports spaCy only; torch, transformers and faiss load when a linker is
built.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from spacy.language import Language
from thinc.api import Model

from ..checks import refused
from ..kb.kinds import ENTITY
from .linker import PelLinker
from .settings import SETTINGS, Lexical, LinkSettings, Threshold, Vectors
from .with_settings import errors_name

DEFAULT_CONFIG = {
    "model": {"@architectures": "spacy_pel.BiEncoder.v1"},
    "loss": {"@misc": "spacy_pel.ProxyLoss.v1", "origin": "auto"},
    "adversarial": {"@misc": "spacy_pel.FGSM.v1"},
    "negatives": {"@misc": "spacy_pel.MixedNegatives.v1"},
    "layout": "shared",
    "mask_names": 0.0,
    "freeze_entities": False,
    "distillation": None,
    **asdict(LinkSettings()),
    "scorer": {"@scorers": "spacy_pel.link_scorer.v1"},
}


@Language.factory(
    "pel_linker",
    requires=["doc.ents", "token.ent_iob", "token.ent_type"],
    assigns=["token.ent_kb_id", "span._.kb_ents", "span._.is_nil", "span._.kb_prob", "span._.kb_read"],
    default_config=DEFAULT_CONFIG,
    default_score_weights={"nel_recall_at_1": 1.0, "nel_recall_at_64": 0.0},
)
def make_linker(
    nlp: Language,
    name: str,
    model: Model,
    loss: Any,
    adversarial: Any | None,
    negatives: Any,
    layout: str,
    mask_names: float,
    freeze_entities: bool,
    distillation: Any | None,
    top_k: int,
    max_candidates: int,
    spans_key: str | None,
    resolve_abbreviations: bool,
    vectors: Vectors,
    lexical: Lexical,
    nil_threshold: Threshold,
    labels_discard: list[str],
    types: list[str],
    types_by_label: dict[str, list[str]],
    with_codes: list[str],
    n_probe: int | None,
    exact_up_to: int,
    search_threads: int | None,
    overwrite: bool,
    use_gold_ents: bool,
    save_kb: bool,
    scorer: Callable | None,
) -> "PelLinker":
    """Build a `pel_linker`.

    Args:
        nlp: The pipeline.
        name: Of the component.
        model: A bi-encoder, `spacy_pel.BiEncoder.v1`.
        loss: `spacy_pel.ProxyLoss.v1`, `spacy_pel.CrossEntropyLoss.v1` or `spacy_pel.NCELoss.v1`.
        adversarial: `spacy_pel.FGSM.v1`, or null for none.
        negatives: `spacy_pel.RandomNegatives.v1`, `spacy_pel.HardNegatives.v1` or `spacy_pel.MixedNegatives.v1`.
        layout: "shared" (the candidates of a batch serve all its mentions) or "per_mention" (each mention has its own).
        mask_names: The share of the mentions whose own entity is read, while training, without the name that they have.
        freeze_entities: Train the mention tower alone. Vectors of the KB then never become old.
        distillation: `spacy_pel.Distillation.v1`, or null to learn nothing of a ranker.
        scorer: `spacy_pel.link_scorer.v1`.

    The other arguments are the settings of `LinkSettings`.

    Raises:
        PelError: A setting or a part cannot be what it is, or the parts do not go together.
    """
    from ..models.encoding import check_reads_names
    from ..training.objective import Objective

    given = locals()
    with errors_name(name, "pel_linker"):
        settings = LinkSettings(**{key: given[key] for key in SETTINGS})
        objective = Objective(loss, adversarial, negatives, layout, mask_names, freeze_entities, distillation)
        if "similarity" not in model.attrs.get("settings", {}):
            advice = 'make it a section with "@architectures": "spacy_pel.BiEncoder.v1"'
            raise refused(f"[components.{name}]", "model", model.name, advice)
        objective.check_similarity(model, name)
        if settings.vectors != ENTITY:
            check_reads_names(model)
        return PelLinker(nlp.vocab, model, name, objective=objective, settings=settings, scorer=scorer)
