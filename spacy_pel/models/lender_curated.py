"""The `curated_transformer` pipe of spacy-curated-transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from spacy.tokens import Doc
from thinc.api import Model, Ragged, to_numpy

from .lender import Lent, Pieces


class CuratedLender:
    """A `Lender`."""

    def __init__(self, upstream: str) -> None:
        from spacy_curated_transformers.models.listeners import ListenerStateUtils

        self.listener: Model = Model("pel_curated_listener", _forward)
        self._inbox = ListenerStateUtils
        self._inbox.init_state(self.listener, upstream_name=upstream, requires_all_layer_outputs=False)

    def lend(self, docs: Sequence[Doc]) -> Lent | None:
        from spacy_curated_transformers.models.output import DocTransformerOutput

        received = self._inbox.get_output(self.listener)
        backprop: Any = self._inbox.get_backprop(self.listener)
        if received is None:
            return None
        try:
            self._inbox.verify_inputs(self.listener, docs)
        finally:
            self._inbox.clear_state(self.listener)
        outputs = [
            DocTransformerOutput(all_outputs=layers, last_layer_only=received.last_layer_only)
            for layers in received.all_outputs
        ]

        def give_back(gradients: Sequence[Any]) -> object:
            lengths = [output.last_hidden_layer_state.lengths for output in outputs]
            layers = [[Ragged(*own)] for own in zip(gradients, lengths, strict=True)]
            return backprop(layers, outputs_to_backprop=(-1,))

        return Lent(outputs, give_back)

    @staticmethod
    def has_made(output: Any) -> bool:
        return hasattr(output, "last_hidden_layer_state")

    @staticmethod
    def pieces(output: Any) -> Pieces:
        last = output.last_hidden_layer_state
        return Pieces(last.dataXd, np.arange(len(last.dataXd)), to_numpy(last.lengths))


def _forward(model: Model, docs: Sequence[Doc], is_train: bool) -> Any:
    raise NotImplementedError("this layer only stands where the pipe looks for listeners")
