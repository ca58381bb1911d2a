"""`spacy_pel.HFEncoder.v1`: the `encoder_loader` of `[initialize.components.pel_linker]`."""

import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

# What encoders of BERT's, RoBERTa's, MPNet's and DistilBERT's kind call the dropout of hidden states and of attention.
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")


class Encoder(NamedTuple):
    """A pretrained transformer and its tokenizer, the marker tokens added to both."""

    transformer: Any
    tokenizer: Any


def make_hf_encoder(name: str, revision: str | None = None, dropout: float = 0.1) -> Callable[[], Encoder]:
    """Load a pretrained Hugging Face encoder of BERT's kind when the pipeline is initialised.

    name: a folder (config.json, model.safetensors, tokenizer files) or a name on the Hugging Face hub, such as
        "cambridgeltl/SapBERT-from-PubMedBERT-fulltext".
    revision: a commit, tag or branch of the hub's repository.
    dropout: of hidden states and of attention; `[training] dropout` does not reach a transformer.
    RAISES: PelError on the call where nothing can be loaded from `name`.
    """
    return partial(load_hf_encoder, name, revision, dropout)


def load_hf_encoder(name: str, revision: str | None, dropout: float) -> Encoder:
    import torch
    from thinc.api import get_torch_default_device
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    from ..errors import PelError
    from .inputs import add_markers

    local = Path(name).is_dir()
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision, local_files_only=local)
        config = AutoConfig.from_pretrained(name, revision=revision, local_files_only=local)
        for key in DROPOUTS:
            if hasattr(config, key):
                setattr(config, key, dropout)
        transformer = AutoModel.from_pretrained(
            name,
            config=config,
            revision=revision,
            local_files_only=local,
            torch_dtype=torch.float32,
            **attention_for(get_torch_default_device()),
        )
    except (OSError, ValueError) as error:
        raise PelError(
            f"[initialize.components.pel_linker.encoder_loader]: no encoder can be loaded from {name!r}; give a folder "
            f"with config.json, model.safetensors and tokenizer.json, or a name on the hub ({_first_line(error)})."
        ) from error
    add_markers(tokenizer)
    transformer.pooler = None
    transformer.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    return Encoder(transformer, tokenizer)


def attention_for(device: Any) -> dict[str, str]:
    """Plain attention on CPUs, where the fused kernel's backward pass is many times slower; elsewhere what
    transformers chooses, the fused one if the encoder has it."""
    return {"attn_implementation": "eager"} if device.type == "cpu" else {}


def _first_line(error: Exception) -> str:
    return textwrap.shorten((str(error).splitlines() or [type(error).__name__])[0], 160, placeholder=" …")
