"""What the config may say of registered classes: types are checked, unknown keys are named, and all of them pickle
that hold what was given."""

from __future__ import annotations

import pickle
from importlib.metadata import distribution

import pytest
from confection import ConfigValidationError
from spacy.util import registry

VALID = [
    {"@misc": "spacy_pel.ProxyLoss.v1", "alpha": 16.0},
    {"@misc": "spacy_pel.CrossEntropyLoss.v1"},
    {"@misc": "spacy_pel.NCELoss.v1"},
    {"@misc": "spacy_pel.FGSM.v1", "epsilon": 0.002},
    {"@misc": "spacy_pel.Distillation.v1", "path": "targets.jsonl"},
    {"@misc": "spacy_pel.RandomNegatives.v1", "n": 4},
    {"@misc": "spacy_pel.HardNegatives.v1", "draw": "sample"},
    {"@misc": "spacy_pel.MixedNegatives.v1", "p": 25},
    {"@misc": "spacy_pel.HFEncoder.v1", "name": "encoder"},
    {"@misc": "spacy_pel.KBFromDisk.v1", "path": "kb"},
    {"@architectures": "spacy_pel.BiEncoder.v1"},
    {"@architectures": "spacy_pel.CrossEncoder.v1"},
    {"@architectures": "spacy_pel.DocumentEncoder.v1"},
    {"@architectures": "spacy_pel.TransformerListener.v1"},
    {"@architectures": "spacy_pel.DualScore.v1"},
    {"@architectures": "spacy_pel.MultiVectorScore.v1", "m": 4},
    {"@architectures": "spacy_pel.SumOfMax.v1"},
    {"@architectures": "spacy_pel.PolyEncoder.v1", "m": 4},
    {"@architectures": "spacy_pel.GeneralPoly.v1", "entity_vectors": 4},
    {"@readers": "spacy_pel.AliasCorpus.v1", "kb": "kb"},
    {"@readers": "spacy_pel.MentionCorpus.v1", "path": "train.spacy"},
    {"@readers": "spacy_pel.MentionCorpus.v1", "path": "train.spacy", "kb": "kb"},
    {"@batchers": "spacy_pel.batch_by_mentions.v1", "size": 4},
    {"@callbacks": "spacy_pel.refresh_negatives.v1", "every": 3},
    {"@callbacks": "spacy_pel.refresh_negatives.v1", "every": [0, 3, 9], "sample": 8000},
    {"@callbacks": "spacy_pel.keep_freed_memory.v1"},
    {"@loggers": "spacy_pel.StepLogger.v1", "path": "steps.jsonl"},
    {"@optimizers": "spacy_pel.AdamW.v1", "learn_rate": 0.1},
    {"@scorers": "spacy_pel.link_scorer.v1", "kb_sample": 5},
]
CORPUS = {"@readers": "spacy_pel.MentionCorpus.v1", "path": "train.spacy"}
OTHERS = [  # a generator, and what holds objects, not what they are made of
    {"@schedules": "spacy_pel.warmup_linear.v1", "initial_rate": 0.1, "total_steps": 5},
    {"@readers": "spacy_pel.MixedCorpus.v1", "mentions": CORPUS, "aliases": CORPUS},
]


def resolve(block):
    return registry.resolve({"block": block})["block"]


def test_all_that_are_registered_are_here():
    registered = {one.name for one in distribution("spacy-pel").entry_points if one.name.startswith("spacy_pel.")}
    assert {next(iter(block.values())) for block in [*VALID, *OTHERS]} == registered


@pytest.mark.parametrize("block", VALID, ids=str)
def test_it_pickles(block):
    made = resolve(block)
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is type(made)
    for key, value in block.items():
        if not key.startswith("@") and key != "learn_rate":
            assert str(getattr(again, key)) == str(value)


@pytest.mark.parametrize("block", [*VALID, *OTHERS], ids=str)
def test_an_unknown_key_is_named(block):
    with pytest.raises(ConfigValidationError, match="unexpected argument: 'nosuchkey'"):
        resolve({**block, "nosuchkey": 1})


@pytest.mark.parametrize("block", [block for block in [*VALID, *OTHERS] if len(block) > 1], ids=str)
def test_a_value_of_another_type_is_refused(block):
    key = list(block)[1]
    if key == "learn_rate":  # a number or a schedule; any type
        block, key = {**block, "eps": 0}, "eps"
    with pytest.raises(ConfigValidationError, match=key):
        resolve({**block, key: {"no": "value"}})


@pytest.mark.parametrize(
    "block",
    [
        {"@misc": "spacy_pel.ProxyLoss.v1", "similarity": "dot"},
        {"@misc": "spacy_pel.RandomNegatives.v1", "pool": 3},
        {"@misc": "spacy_pel.HardNegatives.v1", "percent_hard": 3},
        {"@readers": "spacy_pel.AliasCorpus.v1", "kb": "kb", "calls": 3},
    ],
    ids=str,
)
def test_what_is_no_setting_is_no_key(block):
    with pytest.raises(ConfigValidationError, match="unexpected argument"):
        resolve(block)
