"""Every setting refuses what it cannot be: wrong kinds, negative, zero, not a number, infinite, huge."""

from __future__ import annotations

import math

import numpy as np
import pytest
import spacy

from spacy_pel.corpora.alias_corpus import AliasCorpus
from spacy_pel.corpora.mention_corpus import MentionCorpus
from spacy_pel.corpora.mixed_corpus import MixedCorpus
from spacy_pel.errors import PelError
from spacy_pel.evaluation.scorer import LinkScorer
from spacy_pel.models.bi_encoder import make_bi_encoder
from spacy_pel.models.encoder_loader import HFEncoder
from spacy_pel.pipeline.settings import LinkSettings
from spacy_pel.training.adversarial import FGSM
from spacy_pel.training.batching import BatchByMentions
from spacy_pel.training.callbacks import RefreshNegatives
from spacy_pel.training.losses import ProxyLoss
from spacy_pel.training.negatives import HardNegatives, MixedNegatives, RandomNegatives
from spacy_pel.training.objective import Objective
from spacy_pel.training.optimizer import AdamW, make_warmup_linear

NO_NUMBERS = ("5", None, [5], {}, math.nan, math.inf, -math.inf, True, object)
COUNT = (*NO_NUMBERS, -1, -(10**30), 10**30, 2.5, 1e308)
NUMBER = (*NO_NUMBERS, -1e308, 1e308, 10**400)
TEXTS = ("Disease", 5, None, [5], [None], {"a"}, b"Disease")
FLAG = (0, 1, "true", None, math.nan)
CHOICE = ("x", "", 0, None, ["mean"], {})


def link(key):
    return lambda value: LinkSettings(**{key: value})


def model(key):
    return lambda value: make_bi_encoder(**{key: value})


def objective(value):
    return Objective(ProxyLoss(), None, RandomNegatives(), "shared", value)


def of(kind, key, **others):
    return lambda value: kind(**{**others, key: value})


WRONG = [
    *((key, link(key), (*COUNT, 0)) for key in ("top_k", "max_candidates")),
    *((key, link(key), [v for v in (*COUNT, 0) if v is not None]) for key in ("n_probe", "search_threads")),
    ("search_threads", link("search_threads"), [100_000]),
    ("exact_up_to", link("exact_up_to"), COUNT),
    *((key, link(key), TEXTS) for key in ("types", "labels_discard")),
    ("types_by_label", link("types_by_label"), ["X", 5, ["X"], {"X": "Disease"}, {5: ["a"]}, {"X": [5]}]),
    *((key, link(key), FLAG) for key in ("resolve_abbreviations", "overwrite", "use_gold_ents", "save_kb")),
    ("spans_key", link("spans_key"), [5, ["x"], True, math.nan]),
    ("lexical", link("lexical"), ["x", 5, [], {}, {"ngram": 1}, {"ngram": 1, "exact": 1, "other": 1}]),
    (
        "lexical",
        link("lexical"),
        [{"ngram": v, "exact": 0.1} for v in (1e308, math.nan, math.inf, -1, "1", None, True, 2e6, 10**400)],
    ),
    ("mention_length", model("mention_length"), (*COUNT, 0, 7)),
    ("entity_length", model("entity_length"), (*COUNT, 0, 3)),
    ("context", model("context"), [v for v in COUNT if v is not None]),
    *((key, model(key), CHOICE) for key in ("similarity", "entity_template", "aliases", "precision", "pooling")),
    ("shared_towers", model("shared_towers"), FLAG),
    ("alpha", of(ProxyLoss, "alpha"), (*NUMBER, 0, -1)),
    ("margin", of(ProxyLoss, "margin"), (*NUMBER, 3)),
    ("epsilon", of(FGSM, "epsilon"), (*NUMBER, 0, -1)),
    ("weight", of(FGSM, "weight"), (*NUMBER, -1)),
    *(("n", of(kind, "n"), (*COUNT, 0)) for kind in (HardNegatives, MixedNegatives)),
    ("n", of(RandomNegatives, "n"), COUNT),
    ("p", of(MixedNegatives, "p"), (*NUMBER, -1, 101)),
    *(("draw", of(kind, "draw"), CHOICE) for kind in (HardNegatives, MixedNegatives)),
    *((key, of(kind, key), COUNT) for kind in (HardNegatives, MixedNegatives) for key in ("pool", "rescored")),
    ("replace", of(RandomNegatives, "replace"), FLAG),
    *(
        ("in_batch", of(kind, "in_batch"), [v for v in FLAG if v is not None])
        for kind in (RandomNegatives, HardNegatives, MixedNegatives)
    ),
    ("loss", lambda value: Objective(value, None, RandomNegatives(), "shared"), [5, None, "x", {}]),
    ("adversarial", lambda value: Objective(ProxyLoss(), value, RandomNegatives(), "shared"), [5, "x", {}]),
    ("negatives", lambda value: Objective(ProxyLoss(), None, value, "shared"), [5, None, "x", {}]),
    ("mask_names", objective, (*NUMBER, -0.1, 1.1)),
    ("freeze_entities", lambda value: Objective(ProxyLoss(), None, RandomNegatives(), "shared", 0.0, value), FLAG),
    ("size", BatchByMentions, (*COUNT, 0)),
    ("discard_oversize", of(BatchByMentions, "discard_oversize", size=2), FLAG),
    ("every", RefreshNegatives, (*(value for value in COUNT if value != [5]), 0, "hour", ["5", 6], [5, 5])),
    *((key, of(LinkScorer, key), COUNT) for key in ("kb_sample", "seed")),
    *((key, of(MentionCorpus, key, path="x"), COUNT) for key in ("window", "seed", "limit")),
    *((key, of(AliasCorpus, key, kb="x"), COUNT) for key in ("window", "seed", "limit")),
    ("in_text", of(AliasCorpus, "in_text", kb="x"), (*NUMBER, -0.1, 1.1)),
    ("templates", of(AliasCorpus, "templates", kb="x"), TEXTS),
    ("ratio", of(MixedCorpus, "ratio", mentions=list, aliases=list), (*NUMBER, -1)),
    ("first", of(MixedCorpus, "first", mentions=list, aliases=list), COUNT),
    ("dropout", of(HFEncoder, "dropout", name="x"), (*NUMBER, -1, 1)),
    ("name", HFEncoder, [5, None, ["x"]]),
    ("learn_rate", AdamW, ("5", None, math.nan, math.inf, -1, True, [])),
    *((key, of(AdamW, key, learn_rate=0.1), (*NUMBER, -1, 1)) for key in ("beta1", "beta2")),
    ("eps", of(AdamW, "eps", learn_rate=0.1), (*NO_NUMBERS, 0, -1)),
    ("weight_decay", of(AdamW, "weight_decay", learn_rate=0.1), (*NO_NUMBERS, -1)),
    ("max_gradient_norm", of(AdamW, "max_gradient_norm", learn_rate=0.1), ("5", math.nan, math.inf, -1, 0)),
    ("total_steps", of(make_warmup_linear, "total_steps", initial_rate=0.1), (*COUNT, 0)),
    ("warmup_share", of(make_warmup_linear, "warmup_share", initial_rate=0.1, total_steps=5), (*NUMBER, -1, 2)),
]


@pytest.mark.parametrize(("key", "make", "values"), WRONG)
def test_a_value_that_cannot_be_is_one_error_that_names_the_key(key, make, values):
    for value in values:
        with pytest.raises(PelError, match=rf"\b{key}(\[\S+\])? (=|is) ") as error:
            make(value)
        assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_a_whole_number_of_another_library_is_told_to_be_an_int():
    with pytest.raises(PelError, match=r"top_k = .*64.*; it must be at least 1, an int and no int64\.$"):
        LinkSettings(top_k=np.int64(64))
    with pytest.raises(PelError, match=r"top_k = True; it must be at least 1, a whole number\.$"):
        LinkSettings(top_k=True)


@pytest.mark.parametrize(
    ("key", "value"),
    [("top_k", -5), ("max_candidates", 0), ("search_threads", -1), ("lexical", {"ngram": 1e308, "exact": 1e308})],
)
def test_in_the_config_of_a_pipeline_too(key, value):
    with pytest.raises(PelError, match=key):
        spacy.blank("en").add_pipe("pel_linker", config={key: value})


@pytest.mark.parametrize(("key", "value"), [("types", "Disease"), ("types", 5), ("top_k", "many"), ("top_k", None)])
def test_a_kind_that_spacy_checks_is_its_own_error(key, value):
    with pytest.raises(ValueError, match=key):
        spacy.blank("en").add_pipe("pel_linker", config={key: value})


def test_what_can_be_is_taken():
    made = LinkSettings(
        top_k=2**31 - 1, n_probe=10**9, search_threads=1024, types=("a",), lexical={"ngram": 0, "exact": 3}
    )
    assert made.types == ["a"] and made.top_k == 2**31 - 1
    HardNegatives(in_batch=None), ProxyLoss(margin=-0.5), FGSM(1, 0), RefreshNegatives("epoch"), RefreshNegatives(3)
    AdamW(iter([0.1])), AdamW(0), HFEncoder("x", dropout=0), MixedCorpus(list, list, 0.5, 3)
