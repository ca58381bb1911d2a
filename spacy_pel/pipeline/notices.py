"""What a linker warns of: that it links nothing now, or that what was tuned does not count."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from thinc.api import Model

from ..tuning.ranking import both_scored_in, digest_of
from ..tuning.tuned import TuningContext

SCORES = "{} behind a linker in {}"
SHOWN = {"mention_length": "mention_length or window"}  # of documents, a config says `window`


def warn_of_training(name: str) -> None:
    """Warn that the component `name` is being trained."""
    warnings.warn(
        f"{name} is being trained and links nothing: its KB is not indexed with the weights of now. Call "
        f'nlp.get_pipe("{name}").index(), or save the pipeline and run `python -m spacy pel index`.',
        stacklevel=3,
    )


def warn_of_missing(name: str, kb: Any, fingerprints: Iterable[str]) -> None:
    """Warn where `kb` has entities without any vector of these fingerprints, which the component `name` cannot find by
    their vectors."""
    there = kb.indexes  # asked for once: it looks whether the KB has changed
    indexes = [there[one] for one in fingerprints if one in there]
    if not indexes or not min(index.n_missing for index in indexes):
        return
    found = reduce(np.union1d, (index.entities_now for index in indexes))
    if missing := len(kb) - len(found):
        warnings.warn(
            f"{name} cannot find {missing:,} of the {len(kb):,} entities of {kb.path}: a linker with another encoder, "
            "or another setting of `vectors`, has added or changed them. Call "
            f'nlp.get_pipe("{name}").index(), or run `python -m spacy pel index`.',
            stacklevel=4,
        )


def warn_of_removed_kb(name: str, kb: Path) -> None:
    """Warn that the component `name` is saved without its `kb`, which is not there any more."""
    warnings.warn(
        f"{name} is saved without its KB: {kb} was removed after it had been opened (`spacy train` empties the folder "
        f"that it writes to). Build it again, and call linker.set_kb(KnowledgeBase(FOLDER)) and linker.index().",
        stacklevel=5,
    )


def warn_of_no_links(ranker: str, linker: str) -> None:
    """Warn that mentions reach the component `ranker` that the component `linker` has not linked."""
    warnings.warn(
        f"{ranker} got mentions that {linker} has not linked, and leaves them so: it ranks what {linker} finds. Enable "
        f"{linker} and put it before {ranker} (nlp.pipe_names has the order).",
        stacklevel=3,
    )


def warn_of_tuning(linker: Any) -> None:
    """Warn where the NIL threshold of `linker` was tuned with another KB, or for other scores. It is dropped where
    these were computed in another precision, as are weights of names that were fitted for another KB, or other
    vectors."""
    if linker.kb is None:
        return
    tuned = linker.tuned
    here = TuningContext.of_linker(linker, None)
    if (complaint := tuned.names_complaint(here, linker.name)) is not None:
        linker.tuned = tuned = tuned.without_names()
        warnings.warn(complaint, stacklevel=3)
    if (complaint := tuned.precision_complaint(here, linker.name)) is not None:
        linker.tuned = tuned = tuned.without_nil()
        warnings.warn(complaint, stacklevel=3)
    if tuned.context is not None:
        here = TuningContext.of_linker(linker, linker.name_weights)
        for complaint in tuned.complaints(here, linker.name):
            warnings.warn(complaint, stacklevel=3)


def warn_of_other_architecture(linker: Any, saved: Model, path: Path) -> None:
    """Warn where the config of `linker` asks for another bi-encoder than the one `saved` at `path`, which counts. The
    default one, of `nlp.add_pipe("pel_linker")`, asks for nothing."""
    from ..models.bi_encoder import make_bi_encoder

    default = make_bi_encoder().attrs["settings"]
    asked, there = (default | one.attrs["settings"] | {"precision": ""} for one in (linker.model, saved))
    others = sorted(key for key in asked.keys() | there.keys() if asked.get(key) != there.get(key))
    if not others or asked == default | {"precision": ""}:
        return
    settings = ", ".join(f"{SHOWN.get(key, key)} = {asked.get(key)!r} (not {there.get(key)!r})" for key in others)
    warnings.warn(
        f"[components.{linker.name}.model] asks for another encoder than {path} has, which stays as it was trained: "
        f"{settings}. Leave that out, of config.cfg too, or train and index a linker with it.",
        stacklevel=6,
    )


def warn_of_other_scores(ranker: Any) -> None:
    """Warn where the linker before `ranker` was tuned, or indexed, after what was tuned of the ranker. What that says
    of probabilities is dropped where one of the two computes in another precision."""
    then, here = ranker.tuned.scored_in, both_scored_in(ranker)
    if then is not None and then != here:
        ranker.tuned = ranker.tuned.without_probabilities()
        warnings.warn(
            f"Dropped the NIL threshold and the probabilities of {ranker.name}: they were tuned for scores in "
            f"{SCORES.format(*then)}, and they are now in {SCORES.format(*here)}. Run `python -m spacy pel "
            "tune-ranker` on the pipeline saved in that precision.",
            stacklevel=4,
        )
    elif ranker.tuned.behind is not None and ranker.tuned.behind != digest_of(ranker.linker):
        warnings.warn(
            f"{ranker.name} was tuned behind another {ranker.linker.name}, or before that was tuned or indexed again: "
            "its order, probabilities and NIL may be wrong. Run `python -m spacy pel tune-ranker` again.",
            stacklevel=4,
        )


def warn_of_no_probabilities(ranker: str, linker: str) -> None:
    """Warn that `rerank_below` of the component `ranker` finds no probability of the component `linker`."""
    warnings.warn(
        f"{ranker} ranks mentions anew whatever its rerank_below, since {linker} gives them no probability: run "
        "`python -m spacy pel tune-nil` on the pipeline first.",
        stacklevel=4,
    )


def warn_of_dropped_threshold(name: str) -> None:
    """Warn that the NIL threshold of the component `name` was dropped."""
    warnings.warn(f"{name}: dropped the NIL threshold of another index; tune it again.", stacklevel=3)


def warn_of_unsaved(name: str, settings: Any, section: Mapping[str, Any]) -> None:
    """Warn of `settings` of the component `name` that are others than in its `section` of the `config.cfg` that spaCy
    has written. What is not in there, or is a variable of it, is not known."""
    known = {key: value for key, value in section.items() if "${" not in json.dumps(value)}
    there = {key: value for key, value in asdict(settings).items() if key in known}
    others = [key for key, value in json.loads(json.dumps(there)).items() if value != known[key]]
    if others:
        keys = ", ".join(others)
        warnings.warn(
            f"{name}: what was set on the component is not saved ({keys}): spaCy saves what it was made with. Change "
            f'that too, nlp.get_pipe_config("{name}")["{others[0]}"] = …, or set it again after loading.',
            stacklevel=5,
        )


def warn_if_not_in_force(name: str, key: str, setting: Any) -> None:
    """Warn where the `setting` `key` of the component `name` wins over what was tuned."""
    if setting == "tuned":
        return
    value = "null" if setting is None else setting
    warnings.warn(
        f'What was tuned is not in force: [components.{name}] {key} = {value} wins; set it to "tuned", in config.cfg '
        f'or as linker.{key} = "tuned".',
        stacklevel=5,
    )
