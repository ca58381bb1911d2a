"""A cross-encoder: its rows, their scores, and both again from disk."""

from __future__ import annotations

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import Doc
from tiny import ENTITIES, make_docs, write_encoder
from transformers import BertModel

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.models.cross_encoder import (
    behind_separator,
    make_cross_encoder,
    pair_tower,
    rows_of_pairs,
    score_pairs,
    set_encoder,
)
from spacy_pel.models.cross_storage import load, save
from spacy_pel.models.encoder_loader import HFEncoder
from spacy_pel.models.pair_rows import all_behind, behind
from spacy_pel.models.token_rows import TokenRows

NLP = spacy.blank("en")
SIZES = {"mention_length": 20, "entity_length": 16, "precision": "fp32"}


def make(folder, **settings):
    torch.manual_seed(0)
    model = make_cross_encoder(**SIZES | settings)
    set_encoder(model, HFEncoder(str(folder))())
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module", params=["mean", "cls", "pooler"])
def model(request, folder):
    return make(folder, pooling=request.param)


@pytest.fixture(scope="module")
def spans():
    return [ent for doc in make_docs(NLP) for ent in doc.ents]


def words(model, row):
    return " ".join(model.attrs["row_builder"].tokenizer.convert_ids_to_tokens(row.tolist()))


def test_a_row_is_the_mention_and_then_the_entity(model, spans):
    rows = rows_of_pairs(model, spans[:2], [ENTITIES[:2], [ENTITIES[4]]])
    assert [words(model, rows[i]).count("[CLS]") for i in range(len(rows))] == [1, 1, 1]
    assert words(model, rows[2]).startswith("[CLS] she took aspirin after the [Ms] heart attack [Me] . [SEP] myo")
    mention, entity = words(model, rows[1]).split(" [SEP] ", maxsplit=1)
    assert mention == "[CLS] she took [Ms] aspirin [Me] after the heart attack ."
    assert entity.startswith("lithium [SEP] chemical [SEP] li .") and entity.endswith("[SEP]")


def test_each_part_is_cut_by_itself(model):
    doc = NLP("aspirin " * 60)
    rows = rows_of_pairs(model, [doc[30:31]], [ENTITIES])
    mention = 20
    assert (rows.lengths <= mention + 15).all() and rows.lengths.max() == mention + 15
    for i in range(len(rows)):
        assert words(model, rows[i]).split(" [SEP] ")[0].count("aspirin") == mention - 4


@pytest.mark.parametrize("name", ["after", "after " * 15, "after " * 60])
@pytest.mark.parametrize("around", [0, 6, 60])
def test_what_one_part_leaves_is_the_others(folder, name, around):
    """As it is by hand: half of the row each, and what is left of a half is for the other."""
    model = make(folder, share_room=True, entity_template="general", aliases="never")
    words_of = ["after"] * around + ["aspirin"] + ["after"] * around
    doc = Doc(NLP.vocab, words=words_of)
    entity = Entity("X", name)
    mention, own = 2 * around + 5, len(name.split()) + 3  # with [CLS], [SEP], [ENT] and the markers
    of_entity = min(own, max(16, 36 - mention))
    row = rows_of_pairs(model, [doc[around : around + 1]], [[entity]])[0]
    left, right = words(model, row).split(" [SEP]", maxsplit=1)
    assert len(left.split()) + 1 == min(mention, 36 - of_entity)
    assert len(right.split()) + 1 == of_entity and right.endswith("[SEP]")
    before, _, behind_it = left.partition(" [Ms] aspirin [Me]")
    assert abs(before.count("after") - behind_it.count("after")) <= 1


def test_parts_that_share_their_room_are_cut_like_others(folder, spans):
    """Where each part is longer than its half."""
    model, apart = make(folder, share_room=True), make(folder)
    doc = NLP("aspirin " * 60)
    long = [Entity("X", "after " * 60)]
    for where, candidates in ((doc[30:31], long), (doc[0:1], long), (doc[0:50], long)):
        one, other = (rows_of_pairs(own, [where], [candidates])[0] for own in (model, apart))
        assert one.tolist() == other.tolist()
    assert np.isfinite(score_pairs(model, spans[:3], [ENTITIES, [], ENTITIES[:2]])).all()


def test_segments_tell_the_parts_apart(model, spans):
    row = rows_of_pairs(model, spans[:1], [ENTITIES[:1]])[0]
    separator = pair_tower(model).separator
    behind = behind_separator(row[None], separator)[0]
    first = row.tolist().index(separator)
    assert not behind[: first + 1].any() and behind[first + 1 :].all()
    assert (behind_separator(torch.as_tensor(row[None].astype("int64")), separator).numpy()[0] == behind).all()


def test_scores_are_those_of_the_transformer_and_the_linear_layer(model, spans):
    candidates = [ENTITIES[:5], ENTITIES[3:9]]
    rows = rows_of_pairs(model, spans[:2], candidates)
    scores = score_pairs(model, spans[:2], candidates)
    module = pair_tower(model)
    transformer = module.transformer.eval()
    for i, score in enumerate(scores):
        ids = torch.as_tensor(rows[i].astype("int64"))[None]
        segments = torch.as_tensor(behind_separator(ids, module.separator), dtype=torch.long)
        assert 0 < segments.sum() < segments.numel()
        with torch.no_grad():
            states = transformer(input_ids=ids, token_type_ids=segments).last_hidden_state[0]
            pooled = states.mean(0) if model.attrs["settings"]["pooling"] == "mean" else states[0]
            expected = module.head(pooled).item()
        assert score == pytest.approx(expected, abs=1e-5)


def test_the_pooler_is_that_of_the_checkpoint_or_a_new_one(folder, spans, tmp_path):
    model = make(folder, pooling="pooler")
    rows = rows_of_pairs(model, spans[:1], [ENTITIES[:1]])
    bert = BertModel.from_pretrained(folder)
    bert.resize_token_embeddings(len(model.attrs["row_builder"].tokenizer))
    bert.embeddings.load_state_dict(pair_tower(model).transformer.embeddings.state_dict())
    ids = torch.as_tensor(rows[0].astype("int64"))[None]
    segments = behind_separator(ids, pair_tower(model).separator).long()
    with torch.no_grad():
        vector = bert.eval()(input_ids=ids, token_type_ids=segments).pooler_output[0]
        expected = pair_tower(model).head[-1](vector).item()
    assert score_pairs(model, spans[:1], [ENTITIES[:1]])[0] == pytest.approx(expected, abs=1e-5)
    assert {name.partition(".")[0] for name in pair_tower(model).head.state_dict()} == {"0", "2"}
    (dropout,) = (layer for layer in pair_tower(model).head.modules() if isinstance(layer, torch.nn.Dropout))
    assert dropout.p == bert.config.hidden_dropout_prob == 0.1
    save(model, tmp_path / "model")
    assert score_pairs(load(tmp_path / "model", "fp32"), spans[:1], [ENTITIES[:1]])[0] == pytest.approx(
        expected, abs=1e-5
    )
    bert = BertModel.from_pretrained(folder, add_pooling_layer=False)
    bert.save_pretrained(write_encoder(tmp_path / "without"))
    head = pair_tower(make(tmp_path / "without", pooling="pooler")).head
    assert 0.01 < head[0].weight.std() < 0.03 and not head[0].bias.any()


def test_the_pooled_head_drops_states_while_it_learns_alone(folder, spans):
    torch.manual_seed(0)
    model = make_cross_encoder(**SIZES, pooling="pooler")
    set_encoder(model, HFEncoder(str(folder), dropout=0.0)())
    rows = rows_of_pairs(model, spans[:1], [ENTITIES[:1]])
    assert model.begin_update(rows)[0] == model.begin_update(rows)[0], "the encoder itself has none"
    (dropout,) = (layer for layer in pair_tower(model).head.modules() if isinstance(layer, torch.nn.Dropout))
    dropout.p = 0.5
    assert model.begin_update(rows)[0] != model.begin_update(rows)[0]
    assert model.predict(rows) == model.predict(rows)


def test_a_score_does_not_depend_on_what_else_is_scored(model, spans):
    together = score_pairs(model, spans, [ENTITIES] * len(spans)).reshape(len(spans), -1)
    alone = np.concatenate([score_pairs(model, [span], [[ENTITIES[3]]]) for span in spans])
    np.testing.assert_allclose(together[:, 3], alone, atol=1e-5)
    assert score_pairs(model, [], []).shape == (0,)
    assert score_pairs(model, spans[:2], [[], ENTITIES[:1]]).shape == (1,)


def test_rows_are_joined_without_the_second_start():
    left, right = TokenRows.from_lists([[1, 2], [3], []]), TokenRows.from_lists([[9, 4, 5], [9], [9, 6], [9, 7, 8]])
    rows = behind(left, right, np.array([0, 1, 2, 0]))
    assert [rows[i].tolist() for i in range(4)] == [[1, 2, 4, 5], [3], [6], [1, 2, 7, 8]]
    shared = all_behind(left, right, np.array([0, 0, 2, 2]))
    assert [shared.rows[i].tolist() for i in range(2)] == [[1, 2, 4, 5], [6, 7, 8]]
    assert shared.spots.tolist() == [[0, 2, 4], [0, 4, 4], [1, 0, 1], [1, 1, 3]]


@pytest.fixture(scope="module")
def at_once(folder):
    return make(folder, rows="mentions")


def test_in_one_row_a_candidate_sees_the_mention_and_itself(at_once, spans):
    """By a plain loop: a pair as one row, whose mention does not see the entity."""
    pairs = make_cross_encoder(**SIZES)
    pairs.attrs["row_builder"] = at_once.attrs["row_builder"]
    candidates = [ENTITIES[:5], [], ENTITIES[3:9]]
    scores = score_pairs(at_once, spans[:3], candidates)
    rows = rows_of_pairs(pairs, spans[:3], candidates)
    module = pair_tower(at_once)
    transformer = module.transformer.eval()
    assert len(scores) == len(rows) == 11
    for score, ids in zip(scores, (torch.as_tensor(rows[i].astype("int64"))[None] for i in range(11)), strict=True):
        segments = torch.as_tensor(behind_separator(ids, module.separator), dtype=torch.long)
        sees = (segments[:, :, None] == 1) | (segments[:, None] == 0)
        with torch.no_grad():
            states = transformer(input_ids=ids, token_type_ids=segments, attention_mask=sees).last_hidden_state
            expected = module.head(states[segments == 1].mean(0)).item()
        assert score == pytest.approx(expected, abs=1e-5)


def test_in_one_row_a_score_does_not_depend_on_what_else_is_scored(at_once, spans):
    together = score_pairs(at_once, spans, [ENTITIES] * len(spans)).reshape(len(spans), -1)
    alone = np.concatenate([score_pairs(at_once, [span], [[ENTITIES[3]]]) for span in spans])
    np.testing.assert_allclose(together[:, 3], alone, atol=1e-5)
    assert score_pairs(at_once, [], []).shape == (0,)


def test_the_nearest_names_come_first(folder, spans):
    model = make(folder, aliases="nearest")
    entity = Entity("D1", "Myocardial Infarction", ("Lithium", "Heart Attacks", "Aspirin"))
    rows = rows_of_pairs(model, spans[:2], [[entity], [entity, ENTITIES[0]]])
    assert [span.text.lower() for span in spans[:2]] == ["aspirin", "heart attack"]
    mine = [words(model, row).split(" [SEP] ", maxsplit=1)[1] for row in (rows[0], rows[1])]
    assert mine[0].index("aspirin") < mine[0].index("heart") and mine[1].index("heart") < mine[1].index("aspirin")
    assert len(rows) == 3


def test_it_comes_back_from_disk(model, at_once, spans, tmp_path):
    save(at_once, tmp_path / "at_once")
    one_row = load(tmp_path / "at_once", "fp32")
    np.testing.assert_array_equal(*(score_pairs(own, spans, [ENTITIES] * len(spans)) for own in (one_row, at_once)))
    save(model, tmp_path / "model")
    again = load(tmp_path / "model", "fp32")
    assert again.attrs["settings"] == model.attrs["settings"]
    np.testing.assert_array_equal(
        score_pairs(again, spans, [ENTITIES] * len(spans)), score_pairs(model, spans, [ENTITIES] * len(spans))
    )
    (tmp_path / "model" / "score.safetensors").write_bytes(b"nothing")
    with pytest.raises(PelError, match=r"no cross-encoder can be read .*score\.safetensors"):
        load(tmp_path / "model", "fp32")


def test_an_encoder_without_segments_has_none(folder, tmp_path, spans):
    model = make(write_encoder(tmp_path / "one", type_vocab_size=1))
    assert pair_tower(model)._segments(torch.zeros(1, 4, dtype=torch.bool)) == {}
    assert np.isfinite(score_pairs(model, spans[:1], [ENTITIES])).all()


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"pooling": "mention"}, r"\[components.pel_ranker.model\]: pooling is 'mention'; choose one of mean, cls"),
        ({"rows": "all"}, r"rows is 'all'; choose one of pairs, mentions"),
        (
            {"rows": "mentions", "pooling": "cls"},
            r"pooling = 'cls'; make it .mean., or rows = .pairs.: the first",
        ),
        ({"rows": "mentions", "share_room": True}, "share_room = True; leave it out, or make rows = .pairs."),
        ({"share_room": 1}, "share_room = 1; make it True or False"),
        ({"mention_length": 50, "entity_length": 30, "share_room": True}, "rows of 79 tokens are longer than the 64"),
        ({"aliases": "some"}, r"\[components.pel_ranker.model\]: aliases is 'some'; choose one of .*, nearest"),
        ({"mention_length": 4}, r"\[components.pel_ranker.model\]: mention_length = 4"),
        ({"precision": "fp8"}, "precision is 'fp8'"),
        ({"mention_length": 50, "entity_length": 30}, r"pel_ranker.model\]: rows of 79 tokens are longer than the 64"),
    ],
)
def test_what_cannot_be_is_refused(folder, settings, error):
    with pytest.raises(PelError, match=error):
        make(folder, **settings)


def test_without_weights_it_says_what_to_do(spans, tmp_path):
    with pytest.raises(PelError, match="pel_ranker has no encoder yet"):
        score_pairs(make_cross_encoder(), spans[:1], [ENTITIES])
    with pytest.raises(PelError, match="pel_ranker has no encoder yet"):
        save(make_cross_encoder(), tmp_path / "model")


def test_broken_weights_are_noticed(folder, spans):
    model = make(folder)
    with torch.no_grad():
        pair_tower(model).head.weight.fill_(float("nan"))
    with pytest.raises(PelError, match="not finite"):
        score_pairs(model, spans[:1], [ENTITIES])
