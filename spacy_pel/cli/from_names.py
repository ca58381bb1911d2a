"""A pipeline of a KB and a pretrained encoder, through spaCy's own initialisation and training."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from .encoder import Template, template_of
from .printing import msg

if TYPE_CHECKING:
    from spacy.language import Language

    from ..kb.knowledge_base import KnowledgeBase

CONFIG = Path(__file__).parent / "templates" / "names.cfg"
LINKER = "components.pel_linker"
DESCRIBED = 0.5  # of the entities: with so many definitions their texts tell entities of one name apart
BATCH, FEWEST_STEPS, MOST_STEPS = 256, 20, 300  # of names: one pass over them, within these bounds


class Chosen(NamedTuple):
    """What is read of a KB.

    Attributes:
        template: The entity template.
        vectors: The kind of vectors.
        why: What in the KB decided, in a sentence for the user.
    """

    template: str
    vectors: str
    why: str


def choose(kb: KnowledgeBase, template: Template | None, vectors: str | None) -> Chosen:
    """What to read of `kb`, by what it has, where `template` or `vectors` do not say."""
    counts = kb.meta["counts"]
    n_types, n_definitions = counts["types"], counts["definitions"]
    read_of_entity = template_of(template, n_types > 0)
    vectors = vectors or ("both" if n_definitions >= DESCRIBED * len(kb) else "names")
    read = {"names": "each name", "entity": "each entity's text", "both": "each name and each entity's text"}
    fields = "name, types and description" if read_of_entity == "biomedical" else "name and description"
    text = "" if vectors == "names" else f" ({fields})"
    return Chosen(
        read_of_entity,
        vectors,
        f"{len(kb):,} entities of {n_types:,} types, {n_definitions:,} with a definition: "
        f"the encoder reads {read[vectors]}{text}",
    )


def started(kb: KnowledgeBase, encoder: str, chosen: Chosen, *, lang: str, texts: Sequence[Path]) -> Language:
    """A pipeline with a linker to `kb`, untrained, and the config that it can learn by.

    Args:
        kb: Without vectors.
        encoder: A folder or Hugging Face name.
        chosen: What is read of the KB.
        lang: Of the pipeline.
        texts: Unannotated texts to read names in, should it learn.

    Raises:
        PelError: The encoder cannot be loaded.
    """
    from spacy.training.initialize import init_nlp
    from spacy.util import load_config

    overrides: dict[str, Any] = {
        "paths.kb": str(kb.path),
        "paths.encoder": encoder,
        "nlp.lang": lang,
        f"{LINKER}.vectors": chosen.vectors,
        f"{LINKER}.model.entity_template": chosen.template,
        "training.max_steps": steps_for(kb),
    }
    if texts:
        overrides |= {"corpora.train.texts": [str(path.absolute()) for path in texts], "corpora.train.in_text": 0.5}
    return init_nlp(load_config(CONFIG, overrides=overrides, interpolate=False))


def steps_for(kb: KnowledgeBase) -> int:
    """Optimizer steps for about one pass over the names of `kb`, within bounds."""
    counts = kb.meta["counts"]
    return min(max(ceil((counts["entities"] + counts["aliases"]) / BATCH), FEWEST_STEPS), MOST_STEPS)


def learn_names(nlp: Language, gpu_id: int) -> None:
    """Train on the names of the KB, by the config of `nlp`. How long it may take is said before it begins."""
    from spacy.training.loop import train

    steps = nlp.config.interpolate()["training"]["max_steps"]
    seconds = steps * _seconds_a_step(nlp)
    took = f"{ceil(seconds / 60):,} minutes" if seconds > 60 else "a minute"
    msg.info(f"Learning: {steps:,} steps of {BATCH} names, about {took}")
    train(nlp, None, use_gpu=gpu_id)


def _seconds_a_step(nlp: Language) -> float:
    """About how long a training step takes: three times as long as reading as many names, and as many entities and
    their negatives, since the way back costs twice the way there."""
    from ..models.encoding import encode_entities, encode_names

    linker: Any = nlp.get_pipe("pel_linker")
    entities = list(islice(cycle(islice(linker.kb.entities(), BATCH)), BATCH))
    encode_names(linker.model, [entities[0].name])  # the first call takes longer
    start = perf_counter()
    encode_names(linker.model, [entity.name for entity in entities])
    for _ in range(1 + linker.objective.negatives.n):
        encode_entities(linker.model, entities)
    return 3 * (perf_counter() - start)
