"""Entities without the mention's own name, as they are read while training."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tiny import ENTITIES, make_kb, make_pipeline, train, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.models.bi_encoder import row_builder
from spacy_pel.models.token_rows import TokenRows
from spacy_pel.training.layouts import per_mention, shared
from spacy_pel.training.masking import with_masked_names, without_name
from spacy_pel.training.negatives import DrawnNegatives

SKIN = Entity("D1", "Skin Disease", ("Disease, Skin", "Dermatosis"), ("Disease",), "Of the skin.")


@pytest.mark.parametrize(
    ("form", "name", "aliases"),
    [
        ("skin disease", "Dermatosis", ()),
        ("dermatosis", "Skin Disease", ("Disease, Skin",)),
        ("rash", "Skin Disease", ("Disease, Skin", "Dermatosis")),
    ],
)
def test_the_name_goes_in_any_order_of_its_words(form, name, aliases):
    masked = without_name(SKIN, form)
    assert (masked.name, masked.aliases, masked.definition) == (name, aliases, SKIN.definition)


def test_an_entity_with_one_name():
    assert without_name(Entity("D1", "Rash", (), (), "Spots."), "rash").name == ""
    assert without_name(Entity("D1", "Rash"), "rash").name == "Rash"  # nothing else says what it is


def test_the_rows_of_the_masked_ones_are_made_anew(tmp_path):
    _, linker, _, _ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    builder = row_builder(linker.model)
    rows = builder.entities(ENTITIES[:4])
    masked = with_masked_names(
        rows, np.array([0, 3, 0]), [ENTITIES[0], ENTITIES[3], ENTITIES[0]], ["aspirin", "fits", "ASA"], builder
    )
    assert [masked[i].tolist() for i in (1, 2)] == [rows[i].tolist() for i in (1, 2)]
    left = [without_name(without_name(ENTITIES[0], "aspirin"), "ASA"), without_name(ENTITIES[3], "fits")]
    expected = builder.entities(left)
    assert [masked[0].tolist(), masked[3].tolist()] == [expected[i].tolist() for i in range(2)]
    assert masked[0].tolist() != rows[0].tolist() and isinstance(masked, TokenRows)


@pytest.mark.parametrize("layout", [shared, per_mention])
def test_the_layouts_say_where_the_gold_is(layout):
    gold = np.array([4, 9, 4])
    candidates = layout(gold, [[4], [9], [4]], DrawnNegatives(np.array([[9, 7], [5, 7], [1, 2]])))
    assert candidates.entity_places[candidates.gold].tolist() == gold.tolist()


def test_a_share_of_the_mentions(tmp_path, monkeypatch):
    """What is learnt is another thing with it."""
    losses, n_masked = {}, Counter()

    def counted(rows, places, *others):
        n_masked[share] += len(places)
        return with_masked_names(rows, places, *others)

    monkeypatch.setattr("spacy_pel.training.session.with_masked_names", counted)
    for share in (0.0, 0.5, 1.0):
        folder = tmp_path / str(share)
        nlp, linker, examples, optimizer = make_pipeline(
            write_encoder(folder / "encoder"), make_kb(folder / "kb"), mask_names=share
        )
        losses[share] = train(nlp, examples, optimizer, 6)
        assert linker.objective.mask_names == share
    assert all(one != other for one, other in zip(losses[0.0], losses[1.0], strict=True))
    assert n_masked[0.0] == 0 and n_masked[1.0] == 6 * 12
    assert 0.3 < n_masked[0.5] / n_masked[1.0] < 0.7


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_no_share(tmp_path, share):
    with pytest.raises(PelError, match="mask_names"):
        make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"), mask_names=share)
