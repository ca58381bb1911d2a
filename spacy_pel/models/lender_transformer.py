"""The `transformer` pipe of spacy-transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from spacy.tokens import Doc
from thinc.api import to_numpy

from .lender import Lent, Pieces


class TransformerLender:
    """A `Lender`."""

    def __init__(self, upstream: str) -> None:
        from spacy_transformers.layers import TransformerListener

        self.listener: Any = TransformerListener(upstream)

    def lend(self, docs: Sequence[Doc]) -> Lent | None:
        if self.listener._batch_id is None:
            return None
        outputs, backprop = self.listener.begin_update(docs)
        return Lent(outputs, lambda gradients: backprop(_with_gradients(outputs, gradients)))

    @staticmethod
    def has_made(output: Any) -> bool:
        return hasattr(output, "model_output")

    @staticmethod
    def pieces(output: Any) -> Pieces:
        states = _last(output).reshape(-1, _last(output).shape[-1]) if _has_states(output) else np.zeros((0, 0))
        return Pieces(states, to_numpy(output.align.dataXd).reshape(-1), to_numpy(output.align.lengths))


def _with_gradients(outputs: Sequence[Any], gradients: Sequence[Any]) -> list[Any]:
    """The `outputs` with `gradients` in the place of states, as the pipe takes them: without those of empty Docs."""
    from spacy_transformers.data_classes import TransformerData
    from transformers.file_utils import ModelOutput

    return [
        TransformerData(
            model_output=ModelOutput(last_hidden_state=gradient.reshape(_last(output).shape)),
            wordpieces=output.wordpieces,
            align=output.align,
        )
        for output, gradient in zip(outputs, gradients, strict=True)
        if _has_states(output)
    ]


def _has_states(output: Any) -> bool:
    return "last_hidden_state" in output.model_output


def _last(output: Any) -> Any:
    return output.model_output.last_hidden_state
