"""AdamW against PyTorch's, what decays, the warm-up's share, and gradients of a batch in parts against the whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from spacy.util import registry
from thinc.api import Adam, Linear
from tiny import make_kb, make_pipeline, write_encoder

from spacy_pel.errors import PelError
from spacy_pel.evaluation.scorer import LinkScorer
from spacy_pel.models.encoder import tower_module
from spacy_pel.training.adversarial import FGSM
from spacy_pel.training.losses import ProxyLoss
from spacy_pel.training.optimizer import AdamW, make_warmup_linear
from spacy_pel.tuning.tuned import Tuned


@pytest.mark.parametrize("size", [1.0, 1e-4, 1e-6])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_steps_are_those_of_pytorch(size, decay):
    rng = np.random.default_rng(0)
    matrix, bias = rng.normal(size=(4, 3)).astype("float32"), rng.normal(size=3).astype("float32")
    ours = AdamW(0.01, weight_decay=decay)
    theirs = [torch.nn.Parameter(torch.tensor(matrix)), torch.nn.Parameter(torch.tensor(bias))]
    groups = [{"params": theirs[:1], "weight_decay": decay}, {"params": theirs[1:], "weight_decay": 0.0}]
    reference = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.999), eps=1e-6)
    for step in range(20):
        ours.learn_rate = reference.param_groups[0]["lr"] = reference.param_groups[1]["lr"] = 0.01 / (step + 1)
        for i, weights in enumerate((matrix, bias)):
            gradient = size * rng.normal(size=weights.shape).astype("float32")
            theirs[i].grad = torch.tensor(gradient)
            ours((1, str(i)), weights, gradient.copy())
        reference.step()
    np.testing.assert_allclose(matrix, theirs[0].detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(bias, theirs[1].detach().numpy(), atol=1e-6)


def test_biases_do_not_decay():
    optimizer = AdamW(0.1, weight_decay=0.5)
    matrix, bias = np.ones((2, 2), dtype="float32"), np.ones(2, dtype="float32")
    optimizer((1, "W"), matrix, np.zeros((2, 2), dtype="float32"))
    optimizer((1, "b"), bias, np.zeros(2, dtype="float32"))
    np.testing.assert_allclose(matrix, 0.95)
    np.testing.assert_allclose(bias, 1.0)


def test_layers_of_thinc_learn_with_it():
    """A pipeline may train other pipes beside the linker, whose weights are numpy arrays that move."""
    optimizer, layer = AdamW(0.1, weight_decay=0.0), Linear(1, 3)
    inputs = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    wanted = inputs @ np.array([[1.0], [-2.0], [0.5]], dtype="float32") + 1
    layer.initialize(inputs, wanted)
    for _ in range(200):
        found, backprop = layer.begin_update(inputs)
        backprop((found - wanted) / len(inputs))
        layer.finish_update(optimizer)
        layer.set_param("W", layer.get_param("W").copy())
    np.testing.assert_allclose(layer.get_param("W"), [[1.0, -2.0, 0.5]], atol=1e-2)
    np.testing.assert_allclose(layer.get_param("b"), [1.0], atol=1e-2)


@pytest.mark.parametrize("order", ["rows", "columns", "every other"])
def test_arrays_that_are_views(order):
    """The same steps, and nothing of the memory between is touched."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(8, 6)).astype("float32")
    views = {"rows": lambda a: a, "columns": lambda a: a.T, "every other": lambda a: a.T[:, ::2]}
    view, plain = views[order](base.copy()), np.ascontiguousarray(views[order](base))
    ours, theirs = AdamW(0.1), AdamW(0.1)
    for _ in range(3):
        gradient = np.asfortranarray(rng.normal(size=view.shape).astype("float32"))
        ours((1, "W"), view, gradient.copy(order="F"))
        theirs((1, "W"), plain, np.ascontiguousarray(gradient))
    np.testing.assert_allclose(view, plain, rtol=1e-6)
    if order == "every other":
        np.testing.assert_array_equal(view.base[1::2] if view.base is not None else base[1::2], base[1::2])


def test_an_array_of_another_size_begins_anew():
    optimizer, fresh = AdamW(0.1), AdamW(0.1)
    optimizer((1, "W"), np.ones((4, 3), dtype="float32"), np.ones((4, 3), dtype="float32"))
    larger, same = np.ones((40, 30), dtype="float32"), np.ones((40, 30), dtype="float32")
    optimizer((1, "W"), larger, np.full((40, 30), 0.5, dtype="float32"))
    fresh((1, "W"), same, np.full((40, 30), 0.5, dtype="float32"))
    np.testing.assert_array_equal(larger, same)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: AdamW(0.1, max_gradient_norm=-1.0), "max_gradient_norm = -1.0"),
        (lambda: AdamW(0.1, max_gradient_norm=0.0), r"more than 0, or None \(null\) for no clipping"),
        (lambda: make_warmup_linear(0.1, 0), "total_steps = 0"),
        (lambda: make_warmup_linear(0.1, 10, 10), "warmup_share = 10"),
        (lambda: ProxyLoss(0.0), "alpha = 0.0"),
        (lambda: FGSM(-0.01), "epsilon = -0.01"),
        (lambda: FGSM(0.01, -1.0), "adversarial = null"),
        (lambda: LinkScorer(-1), "kb_sample = -1"),
    ],
)
def test_settings_that_would_teach_nothing(make, named):
    with pytest.raises(PelError, match=named):
        make()


def test_no_clipping_is_none():
    assert AdamW(0.1, max_gradient_norm=None).max_gradient_norm is None


def test_the_warm_up_is_a_share_of_all_steps():
    rates = make_warmup_linear(1.0, total_steps=10, warmup_share=0.4)
    np.testing.assert_allclose([next(rates) for _ in range(11)], [0, 0.25, 0.5, 0.75, *np.linspace(1, 0, 7)])


def test_registered_for_the_config():
    schedule = {"@schedules": "spacy_pel.warmup_linear.v1", "initial_rate": 1e-3, "total_steps": 10}
    block = {"optimizer": {"@optimizers": "spacy_pel.AdamW.v1", "learn_rate": schedule}}
    optimizer = registry.resolve(block)["optimizer"]
    assert optimizer.max_gradient_norm == 1.0 and optimizer.learn_rate == 0.0 and optimizer.averages is None


@pytest.fixture(params=[(False, None), (True, {"@misc": "spacy_pel.FGSM.v1"})], ids=["plain", "shared towers, FGSM"])
def made(tmp_path, request):
    """Negatives: all of the KB, so that no draw differs between two ways through one batch."""
    shared_towers, adversarial = request.param
    return make_pipeline(
        write_encoder(tmp_path / "encoder"),
        make_kb(tmp_path / "kb"),
        negatives={"@misc": "spacy_pel.RandomNegatives.v1", "n": 64},
        layout="per_mention",
        adversarial=adversarial,
        model={"shared_towers": shared_towers},
    )


def parameters(linker):
    return [p for tower in linker.model.layers for p in tower_module(tower).parameters() if p.grad is not None]


class Caught(Adam(0.0).__class__):
    """An optimizer that only remembers the gradients it was given."""

    def __call__(self, key, weights, gradient, *, lr_scale=1.0):
        self.seen[key] = gradient.copy()
        return weights, gradient


def gradients_of(linker, *batches, max_norm=None):
    optimizer = Caught(0.0)
    optimizer.seen, optimizer.max_gradient_norm = {}, max_norm
    for batch in batches:
        linker.update(batch)
    linker.finish_update(optimizer)
    return list(optimizer.seen.values())


@pytest.mark.parametrize("cuts", [[3], [1, 2], [1, 2, 3, 4, 5]])
def test_a_batch_in_unequal_parts_gives_the_gradient_of_the_whole(made, cuts):
    _, linker, examples, _ = made
    whole = gradients_of(linker, examples)
    norm = linker.session.latest.gradient_norm
    parts = gradients_of(linker, *(list(part) for part in np.split(np.array(examples, dtype=object), cuts)))
    assert len(whole) > 30 and max(np.abs(gradient).max() for gradient in whole) > 1e-3
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert linker.session.latest.gradient_norm == pytest.approx(norm, rel=1e-5)


def test_gradients_are_clipped_by_their_norm_over_all_parameters(made):
    _, linker, examples, _ = made
    free = gradients_of(linker, examples)
    norm = np.sqrt(sum(np.square(gradient, dtype="float64").sum() for gradient in free))
    assert linker.session.latest.gradient_norm == pytest.approx(norm, rel=1e-5)
    clipped = gradients_of(linker, examples, max_norm=norm / 10)
    for one, other in zip(free, clipped, strict=True):
        np.testing.assert_allclose(one / 10, other, rtol=1e-4, atol=1e-6)
    for one, other in zip(free, gradients_of(linker, examples, max_norm=norm * 2), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_no_mention_of_the_kb_changes_nothing(made):
    nlp, linker, examples, _ = made
    optimizer = AdamW(0.1)
    nlp.update(examples, sgd=optimizer)
    before = [p.detach().clone() for p in parameters(linker)]
    linker.tuned = Tuned(nil_threshold=0.5)
    for example in examples:
        example.reference.spans["gold_mentions"] = [
            example.reference.char_span(s.start_char, s.end_char, kb_id="elsewhere")
            for s in example.reference.spans["gold_mentions"]
        ]
    assert nlp.update(examples, sgd=optimizer, losses={})["pel_linker"] == 0.0
    assert all(torch.equal(one, other) for one, other in zip(before, parameters(linker), strict=True))
    assert linker.threshold == 0.5


def test_a_gradient_that_is_not_finite(made):
    _, linker, examples, _ = made
    linker.update(examples)
    next(iter(parameters(linker))).grad.fill_(float("nan"))
    with pytest.raises(PelError, match="not finite: training has diverged"):
        linker.finish_update(AdamW(0.1))
