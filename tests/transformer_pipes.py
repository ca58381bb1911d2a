"""The two packages that have a transformer pipe: a tiny random one of each, and what it makes of a span, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import srsly
import torch

POOLING = {"pooling": {"@layers": "reduce_mean.v1"}}


class SpacyTransformers:
    module, hidden, factory = "spacy_transformers", "spacy_transformers.layers", "transformer"
    ner: ClassVar = {"@architectures": "spacy-transformers.TransformerListener.v1", "grad_factor": 1.0, **POOLING}

    @staticmethod
    def model(encoder: Path, window: int) -> dict:
        spans = {"@span_getters": "spacy-transformers.strided_spans.v1", "window": window, "stride": window * 3 // 4}
        return {"@architectures": "spacy-transformers.TransformerModel.v3", "name": str(encoder), "get_spans": spans}

    @staticmethod
    def loaders(encoder: Path) -> dict:
        """The blocks of [initialize.components.transformer]."""
        return {}

    @staticmethod
    def module_of(pipe):
        return pipe.model.transformer

    @staticmethod
    def pieces(span) -> torch.Tensor:
        """The states (p, width) on the Doc of the word pieces that touch the span."""
        data = span.doc._.trf_data
        own = {int(i) for i in data.align[span.start : span.end].dataXd.reshape(-1)}
        return torch.from_numpy(data.model_output.last_hidden_state.reshape(-1, data.width)[sorted(own)])

    @classmethod
    def computed(cls, pipe, span) -> torch.Tensor:
        """The same, computed anew by torch, with its gradients."""
        encoded = pipe.model.tokenizer(span.doc.text, return_tensors="pt", return_offsets_mapping=True)
        offsets = encoded.pop("offset_mapping")[0]
        own = (offsets[:, 1] > span.start_char) & (offsets[:, 0] < span.end_char)
        return cls.module_of(pipe)(**encoded).last_hidden_state[0][own]


class CuratedTransformers:
    module, hidden = "spacy_curated_transformers", "spacy_curated_transformers.models.listeners"
    factory = "curated_transformer"
    ner: ClassVar = {
        "@architectures": "spacy-curated-transformers.LastTransformerLayerListener.v1",
        "width": 32,
        **POOLING,
    }

    @staticmethod
    def model(encoder: Path, window: int) -> dict:
        """A BERT of the same sizes as the encoder's."""
        config = srsly.read_json(encoder / "config.json")
        sizes = {
            "vocab_size": "vocab_size",
            "hidden_width": "hidden_size",
            "intermediate_width": "intermediate_size",
            "num_hidden_layers": "num_hidden_layers",
            "num_attention_heads": "num_attention_heads",
            "max_position_embeddings": "max_position_embeddings",
            "hidden_dropout_prob": "hidden_dropout_prob",
            "attention_probs_dropout_prob": "attention_probs_dropout_prob",
        }
        spans = {"window": window, "stride": window * 3 // 4}
        return {
            "@architectures": "spacy-curated-transformers.BertTransformer.v1",
            **{ours: config[theirs] for ours, theirs in sizes.items()},
            "piece_encoder": {"@architectures": "spacy-curated-transformers.BertWordpieceEncoder.v1"},
            "with_spans": {"@architectures": "spacy-curated-transformers.WithStridedSpans.v1", **spans},
        }

    @staticmethod
    def loaders(encoder: Path) -> dict:
        return {
            f"{part}_loader": {"@model_loaders": f"spacy-curated-transformers.{loader}.v1", "name": str(encoder)}
            for part, loader in (("encoder", "HFTransformerEncoderLoader"), ("piecer", "HFPieceEncoderLoader"))
        }

    @staticmethod
    def module_of(pipe):
        return pipe.model.get_ref("transformer").shims[0]._model

    @staticmethod
    def pieces(span) -> torch.Tensor:
        own = span.doc._.trf_data.last_hidden_layer_state
        return torch.from_numpy(own[span.start : span.end].dataXd)

    @classmethod
    def computed(cls, pipe, span) -> torch.Tensor:
        (ids,) = pipe.model.get_ref("piece_encoder").predict([span.doc])  # of [CLS], of each token, of [SEP]
        states = cls.module_of(pipe)(torch.from_numpy(ids.dataXd)[None]).all_outputs[-1][0]
        ends = ids.lengths.cumsum()
        return states[ends[span.start] : ends[span.end]]


PACKAGES = [SpacyTransformers, CuratedTransformers]
