"""How hard the hard negatives are: ranks against a plain loop, the keys of the log, and what keeps them hard."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import srsly
from tiny import make_kb, make_pipeline, train, unit_vectors, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.models.encoding import encode_entity_rows
from spacy_pel.training.hardness import hardness
from spacy_pel.training.session import LatestDraw
from spacy_pel.training.step_logger import StepLogger

VECTORS, QUERIES = unit_vectors(40, 8), unit_vectors(3, 8, seed=1)


class Part:
    """40 entities, encoded to `VECTORS`."""

    def __len__(self):
        return len(VECTORS)

    def scores(self, queries, numbers):
        return queries @ VECTORS[numbers].T


def draw(hard, not_wrong=((0,), (1, 2), (3,))):
    return LatestDraw(QUERIES, not_wrong, np.array(hard), Part(), 0)


def ranks(latest, numbers):
    """Of each hard negative among the wrong ones of `numbers`."""
    for query, own, hard in zip(QUERIES, latest.not_wrong, latest.hard, strict=True):
        order = sorted((n for n in numbers if n not in own), key=lambda n: -VECTORS[n] @ query)
        yield from (1 + order.index(n) for n in hard if n >= 0)


@pytest.mark.parametrize("hard", [[[5, 6], [7, 8], [9, 5]], [[5, -1], [7, 8], [-1, -1]]])
def test_over_the_whole_kb_the_ranks_are_exact(hard):
    expected = list(ranks(draw(hard), range(40)))
    found = hardness(draw(hard), 40, seed=0)
    assert found.hard_mean_rank == pytest.approx(np.mean(expected), abs=0.01)
    assert found.hard_in_best == pytest.approx(np.mean([rank <= 4 for rank in expected]), abs=1e-4)


def test_over_a_pool_no_rank_is_worse_and_its_seed_decides_it():
    latest = draw([[5, 6], [7, 8], [9, 5]])
    whole, part = hardness(latest, 40, seed=0), hardness(latest, 10, seed=0)
    assert part.hard_mean_rank < whole.hard_mean_rank and part.hard_in_best >= whole.hard_in_best
    assert part == hardness(latest, 10, seed=0)
    assert len({hardness(latest, 10, seed=seed) for seed in range(5)}) > 1
    numbers = sorted({*np.random.default_rng(0).permutation(40)[:10].tolist(), 5, 6, 7, 8, 9})
    assert part.hard_mean_rank == pytest.approx(np.mean(list(ranks(latest, numbers))), abs=0.01)


def test_none_where_there_are_no_hard_negatives():
    assert hardness(draw([[-1], [-1], [-1]]), 40, seed=0) is None


@pytest.fixture
def make(tmp_path):
    encoder, kb = write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb")
    return lambda **settings: make_pipeline(encoder, kb, **settings)


def test_negatives_of_the_present_weights_are_the_best_wrong_entities(make):
    _, linker, examples, _ = make(negatives={"@misc": "spacy_pel.HardNegatives.v1", "n": 4}, layout="per_mention")
    linker.refresh_negatives()
    linker.update(examples)
    found = hardness(linker.session.latest_draw, 12, seed=0)
    assert found.hard_in_best == 1 and found.hard_mean_rank == 2.5


def test_rescored_negatives_stay_hard_where_old_ones_do_not(make):
    found = {}
    for rescored in (0, 12):
        sampler = {"@misc": "spacy_pel.HardNegatives.v1", "n": 4, "rescored": rescored}
        nlp, linker, examples, optimizer = make(negatives=sampler)
        train(nlp, examples, optimizer, 15)  # searched once, at the first step
        linker.update(examples)
        found[rescored] = hardness(linker.session.latest_draw, 12, seed=0)
    assert found[12].hard_in_best == 1 and found[12].hard_mean_rank == 2.5
    assert found[0].hard_in_best < 1 and found[0].hard_mean_rank > 2.5


def test_what_fills_up_is_not_hard(make):
    hard = {"@misc": "spacy_pel.MixedNegatives.v1", "n": 8, "p": 50}
    _, linker, examples, _ = make(negatives=hard, layout="per_mention")
    linker.refresh_negatives(2)
    linker.update(examples)
    found = linker.session.latest_draw.hard
    assert found.shape[1] == 2 and (found != -1).any(axis=1).all() and (found == -1).any()


def test_rescored_vectors_that_are_known_are_not_encoded_again(make, monkeypatch):
    sampler = {"@misc": "spacy_pel.HardNegatives.v1", "n": 2, "rescored": 6}
    nlp, linker, examples, optimizer = make(adversarial=None, freeze_entities=True, negatives=sampler)
    encoded = []
    original = encode_entity_rows
    monkeypatch.setattr(
        "spacy_pel.search.live.encode_entity_rows",
        lambda model, rows: encoded.append(len(rows)) or original(model, rows),
    )
    train(nlp, examples, optimizer, 3)
    assert encoded == [len(linker.kb)]


def test_hard_negatives_of_a_label_are_ranked_among_what_it_allows(make):
    _, linker, examples, _ = make(types_by_label={"X": ["Disease"]})
    linker.update(examples)
    (part,) = {linker.session.latest_draw.part}
    assert len(part) == 6
    vectors = encode_entity_rows(linker.model, linker.session.live.token_rows)
    own = vectors[part.places_of(np.array([0, 5]))]
    queries = linker.session.latest_draw.queries
    np.testing.assert_allclose(part.scores(queries, np.array([0, 5])), queries @ own.T, atol=1e-5)
    assert hardness(linker.session.latest_draw, 99, seed=0).hard_in_best == 1  # both, of at most 4 others of 6


@pytest.mark.parametrize(("settings", "measured"), [({}, []), ({"hardness_pool": 3, "hardness_every": 2}, [1, 3])])
def test_the_log_has_it_where_it_is_asked_for(tmp_path, make, settings, measured, monkeypatch):
    nlp, linker, examples, optimizer = make()
    nlp.config["training"] = {"score_weights": {}, "max_steps": 0, "eval_frequency": 10}
    encoded = []
    original = type(linker.begin_training().live).scores
    monkeypatch.setattr(
        "spacy_pel.search.live.LiveIndex.scores",
        lambda self, queries, places: encoded.append(len(places)) or original(self, queries, places),
    )
    log_step, finish = StepLogger(tmp_path / "steps.jsonl", progress_bar=False, **settings)(nlp)
    for _ in range(5):
        nlp.update(examples, sgd=optimizer)
        log_step(None)
    finish()
    lines = list(srsly.read_jsonl(tmp_path / "steps.jsonl"))
    assert [line["step"] for line in lines if "hard_in_best" in line] == measured
    assert [line["step"] for line in lines if "hard_mean_rank" in line] == measured
    assert len(lines) == 5 and len(encoded) == len(measured)
    assert all(
        0 <= line["hard_in_best"] <= 1 <= line["hard_mean_rank"] <= 12 for line in lines if line["step"] in measured
    )
    ages = [line["updates_since_refresh"] for line in lines if "hard_in_best" in line]
    assert ages == measured, "searched once, before the first update"


@pytest.mark.parametrize("settings", [{"hardness_pool": -1}, {"hardness_every": 0}, {"seed": 0.5}], ids=str)
def test_numbers_of_the_logger_are_checked(tmp_path, settings):
    (key,) = settings
    with pytest.raises(PelError, match=rf"\[training.logger\]: {key} = "):
        StepLogger(tmp_path / "steps.jsonl", **settings)


def test_too_few_rescored_are_refused():
    from spacy_pel.training.negatives import HardNegatives, MixedNegatives

    with pytest.raises(PelError, match="rescored = 3 is less than the 4"):
        MixedNegatives(8, rescored=3)
    with pytest.raises(PelError, match="rescored = 8 is less than the 1000"):
        HardNegatives(8, draw="sample", rescored=8)
    assert HardNegatives(8, rescored=8).depth == 8


def frozen_steps(make, **settings):
    loss = {"@misc": "spacy_pel.ProxyLoss.v1", "origin": 0.0}  # much to learn
    nlp, linker, examples, optimizer = make(freeze_entities=True, loss=loss, **settings)
    before = encode_entity_rows(linker.model, linker.begin_training().live.token_rows)
    losses = train(nlp, examples, optimizer, 60)
    return SimpleNamespace(linker=linker, before=before, losses=losses)


@pytest.mark.parametrize("adversarial", [None, {"@misc": "spacy_pel.FGSM.v1", "epsilon": 0.01}], ids=str)
def test_a_frozen_entity_tower_stays_and_mentions_learn(make, adversarial):
    done = frozen_steps(make, adversarial=adversarial)
    rows = done.linker.session.live.token_rows
    np.testing.assert_array_equal(encode_entity_rows(done.linker.model, rows), done.before)
    assert np.mean(done.losses[-5:]) < 0.7 * np.mean(done.losses[:5])


def test_vectors_of_a_frozen_entity_tower_are_never_encoded_again(make, monkeypatch):
    done = frozen_steps(make)
    index = done.linker.session.live.index
    done.linker.refresh_negatives()
    done.linker.session.live.search()
    assert done.linker.session.live.index is index is not None
    found = hardness(done.linker.session.latest_draw, 12, seed=0)
    assert found.hard_in_best == 1


def test_a_frozen_entity_tower_is_read_without_dropout(make):
    """Also where FGSM needs gradients of its input."""
    _, linker, _, _ = make(freeze_entities=True, dropout=0.5)
    rows = linker.begin_training().live.token_rows
    tower, learning = (linker.model.get_ref(f"{name}_tower") for name in ("entity", "mention"))
    vectors, backprop = tower.begin_update(rows)
    np.testing.assert_allclose(vectors, tower.predict(rows), atol=1e-5)
    assert all(np.abs(gradient).max() > 0 for gradient in backprop(np.ones_like(vectors)))
    assert np.abs(learning.begin_update(rows)[0] - learning.predict(rows)).max() > 0.01


@pytest.mark.parametrize("mask_names", [0.0, 1.0])
def test_without_fgsm_nothing_goes_back_through_a_frozen_entity_tower(make, monkeypatch, mask_names):
    nlp, linker, examples, optimizer = make(freeze_entities=True, adversarial=None, mask_names=mask_names)
    linker.begin_training()
    shim = linker.model.get_ref("entity_tower").layers[0].shims[0]
    monkeypatch.setattr(shim, "begin_update", lambda *_: pytest.fail("a graph"))
    assert train(nlp, examples, optimizer, 1)[0] > 0


@pytest.mark.parametrize(
    ("loss", "model"),
    [
        ({"@misc": "spacy_pel.ProxyLoss.v1"}, {}),
        ({"@misc": "spacy_pel.ProxyLoss.v1", "origin": "auto"}, {}),
        (
            {"@misc": "spacy_pel.CrossEntropyLoss.v1"},
            {"similarity": "dot", "pooling": "cls", "score": {"@architectures": "spacy_pel.SumOfMax.v1"}},
        ),
    ],
    ids=["dual", "origin", "several vectors"],
)
def test_entities_of_a_frozen_tower_are_encoded_once(make, monkeypatch, loss, model):
    settings = {"freeze_entities": True, "adversarial": None, "layout": "per_mention", "loss": loss, "model": model}
    losses = {}
    for known in (False, True):
        nlp, linker, examples, optimizer = make(**settings)
        linker.refresh_negatives()
        live = linker.session.live
        with monkeypatch.context() as patched:
            if known:
                tower = linker.model.get_ref("entity_tower")
                patched.setattr(tower, "_func", lambda *_, **__: pytest.fail("encoded again"))
            else:
                patched.setattr(live, "_vectors", None)
            losses[known] = train(nlp, examples, optimizer, 4)
    assert min(losses[True]) > 0 and losses[True] == pytest.approx(losses[False], rel=1e-3)


def test_the_next_training_thaws_it(make):
    _, linker, examples, optimizer = make(freeze_entities=True)
    linker.update(examples, sgd=optimizer)
    linker.objective = type(linker.objective)(
        linker.objective.loss, None, linker.objective.negatives, linker.objective.layout
    )
    linker.set_model(linker.model)
    rows = linker.begin_training().live.token_rows
    before = encode_entity_rows(linker.model, rows)
    linker.update(examples, sgd=optimizer)
    assert np.abs(encode_entity_rows(linker.model, rows) - before).max() > 1e-4


def test_shared_towers_cannot_be_frozen_in_part(make):
    _, linker, examples, _ = make(freeze_entities=True, model={"shared_towers": True})
    with pytest.raises(PelError, match="freeze_entities does not go with shared_towers"):
        linker.update(examples)
