"""`spacy_pel.BiEncoder.v1`: a mention tower and an entity tower as one thinc model, and its folder on disk.

model/
  bi_encoder.json               the settings it was built with
  tokenizer/                    Hugging Face tokenizer files
  mention/, entity/             one tower each: config.json, model.safetensors (shared towers: only `mention/`)
"""

import copy
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import srsly
import torch
from safetensors.torch import load_file, save_file
from spacy.tokens import Span
from spacy.util import minibatch
from thinc.api import Model, get_torch_default_device, to_numpy
from thinc.types import Floats2d
from tqdm import tqdm
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.modeling_utils import no_init_weights

from ..errors import PelError
from ..kb.entity import Entity
from .encoder_loader import Encoder, attention_for
from .inputs import ENTITIES_AT_ONCE, RowBuilder, RowSettings
from .precision import check_precision
from .token_rows import TokenRows
from .tower import POOLINGS, SIMILARITIES, make_tower, set_transformer, tower_module

SHAPE = ("model_type", "num_attention_heads", "hidden_act", "layer_norm_eps")  # of a transformer, not in its weights
UNREADABLE = -1
TOWERS = ("mention", "entity")  # shared towers have the first only
ENTITY_SETTINGS = ("entity_length", "similarity", "entity_template", "aliases")


def make_bi_encoder(
    mention_length: int = 128,
    entity_length: int = 128,
    similarity: str = "cosine",
    shared_towers: bool = False,
    entity_template: str = "biomedical",
    aliases: str = "fallback",
    precision: str = "auto",
    context: int | None = None,
    pooling: str = "mean",
) -> Model:
    """Build a bi-encoder without weights; an `encoder_loader` or `load` gives it those.

    mention_length, entity_length: the longest rows, in word pieces, markers included.
    similarity: "cosine" (vectors of unit length; for the proxy-based loss) or "dot" (for cross-entropy).
    shared_towers: one transformer for mentions and entities instead of two.
    entity_template: "biomedical" (`title [SEP] types [SEP] description`) or "general" (`title [ENT] description`).
    aliases: "fallback" (stand in for a missing description), "first" (come before it) or "never".
    precision: "auto" (bfloat16 where the hardware has it), "bf16" or "fp32".
    context: the most word pieces of context on either side of a mention; 0: its text alone; None: all that fits.
    pooling: what of a row makes its vector: "mean" (of all its tokens, as in the paper), "mention" (of those of the
        mention; entities: of all) or "cls" (the first token).
    RETURNS: Model[tuple[TokenRows, TokenRows], tuple[Floats2d, Floats2d]]: rows of m mentions and n entities to
        vectors (m, hidden) and (n, hidden).
    RAISES: PelError for a setting that does not exist.
    """
    settings = dict(locals())
    rows = RowSettings(mention_length, entity_length, entity_template, aliases, context)
    if similarity not in SIMILARITIES:
        raise PelError(f"[components.pel_linker.model]: similarity is {similarity!r}; choose one of {SIMILARITIES}.")
    if pooling not in POOLINGS:
        raise PelError(f"[components.pel_linker.model]: pooling is {pooling!r}; choose one of {POOLINGS}.")
    check_precision(precision)
    mention_tower = make_tower(similarity == "cosine", precision, pooling)
    entity_tower = mention_tower if shared_towers else make_tower(similarity == "cosine", precision, pooling)
    return Model(
        "pel_bi_encoder",
        _forward,
        layers=[mention_tower] if shared_towers else [mention_tower, entity_tower],
        refs={"mention_tower": mention_tower, "entity_tower": entity_tower},
        attrs={"settings": settings, "row_settings": rows, "row_builder": None},
    )


def _forward(model: Model, rows: tuple[TokenRows, TokenRows], is_train: bool) -> tuple:
    mentions, backprop_mentions = model.get_ref("mention_tower")(rows[0], is_train)
    entities, backprop_entities = model.get_ref("entity_tower")(rows[1], is_train)

    def backprop(d_vectors: tuple[Floats2d, Floats2d]) -> tuple[list, list]:
        return backprop_mentions(d_vectors[0]), backprop_entities(d_vectors[1])

    return (mentions, entities), backprop


def set_encoder(model: Model, encoder: Encoder) -> None:
    """Give both towers the weights of one pretrained encoder (a copy each, unless they are shared)."""
    longest = max(model.attrs["row_settings"].mention_length, model.attrs["row_settings"].entity_length)
    limit = _positions(encoder.transformer) or longest
    if longest > limit:
        raise PelError(
            f"[components.pel_linker.model]: rows of {longest} tokens are longer than the {limit} positions of the "
            "encoder; lower mention_length or entity_length."
        )
    model.attrs["row_builder"] = builder = RowBuilder(encoder.tokenizer, model.attrs["row_settings"])
    for i, tower in enumerate(model.layers):
        transformer = encoder.transformer if i == 0 else copy.deepcopy(encoder.transformer)
        set_transformer(tower, transformer, builder.pad, builder.markers)


def _positions(transformer: Any) -> int | None:
    """The longest row an encoder takes; those of RoBERTa's kind begin to count behind the padding's position."""
    padding = getattr(transformer.embeddings, "padding_idx", None)
    positions = getattr(transformer.config, "max_position_embeddings", None)
    return positions if padding is None or positions is None else positions - padding - 1


def row_builder(model: Model) -> RowBuilder:
    """RAISES: PelError while the bi-encoder has no weights."""
    if model.attrs["row_builder"] is None:
        raise PelError(
            "pel_linker has no encoder yet: load a trained pipeline, or name an encoder_loader in "
            "[initialize.components.pel_linker] and initialise the pipeline."
        )
    return model.attrs["row_builder"]


def encode_spans(model: Model, spans: Sequence[Span]) -> tuple[np.ndarray, np.ndarray]:
    """The vectors (d, hidden) float32 of the distinct `spans`, and for every span (n,) which is its own, or
    `UNREADABLE` where it has no word piece. Spans are the same if their rows and their texts are: a row that was cut,
    or has a piece that the encoder does not know, can be that of several texts."""
    rows, row_of = row_builder(model).mentions(spans).unique()
    lengths = rows.lengths
    readable = lengths.nonzero()[0]
    encoded = encode_mentions(model, rows.take(readable))
    numbers: dict[tuple[int, str], int] = {}
    places = np.full(len(spans), UNREADABLE)
    for i in lengths[row_of].nonzero()[0].tolist():
        places[i] = numbers.setdefault((row_of[i], spans[i].text), len(numbers))
    return encoded[np.searchsorted(readable, [row for row, _ in numbers])], places


def encode_mentions(model: Model, rows: TokenRows) -> np.ndarray:
    """(n, hidden) float32 vectors of n mention rows."""
    return to_numpy(model.get_ref("mention_tower").predict(rows))


def encode_entities(model: Model, rows: TokenRows) -> np.ndarray:
    """(n, hidden) float32 vectors of n entity rows."""
    return to_numpy(model.get_ref("entity_tower").predict(rows))


def stream_entities(model: Model, entities: Iterable[Entity], total: int, *, progress: bool) -> Iterator[np.ndarray]:
    """The vectors of `total` entities, in blocks (n, hidden) float32, from their records; with a progress bar."""
    builder = row_builder(model)
    with tqdm(total=total, desc="Encoding entities", unit="ent", unit_scale=True, disable=not progress) as bar:
        for block in minibatch(entities, ENTITIES_AT_ONCE):
            yield encode_entities(model, builder.entities(block))
            bar.update(len(block))


def vector_size(model: Model) -> int:
    """The number of dimensions of its vectors."""
    return _entity_transformer(model).config.hidden_size


def _entity_transformer(model: Model) -> Any:
    return tower_module(model.get_ref("entity_tower")).transformer


def fingerprint(model: Model) -> str:
    """A SHA-256 of all that decides an entity's vector: the entity tower's weights and configuration, the tokenizer
    and the settings of entity rows. Equal fingerprints mean equal vectors, up to the precision computed in."""
    transformer = _entity_transformer(model)
    settings = {key: model.attrs["settings"][key] for key in ENTITY_SETTINGS}
    settings |= {key: getattr(transformer.config, key, None) for key in SHAPE}
    if model.attrs["settings"]["pooling"] == "cls":  # the others treat entities alike
        settings["pooling"] = "cls"
    digest = hashlib.sha256(srsly.json_dumps(settings, sort_keys=True).encode())
    digest.update(row_builder(model).tokenizer.backend_tokenizer.to_str().encode())
    for name, tensor in sorted(transformer.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def save(model: Model, path: Path) -> None:
    """Write the bi-encoder into the folder `path`. Each weight file is replaced whole, so one that is open (or mapped)
    elsewhere stays as it is there."""
    path.mkdir(parents=True, exist_ok=True)
    row_builder(model).tokenizer.save_pretrained(path / "tokenizer")
    for name, tower in zip(TOWERS, model.layers, strict=False):
        _save_transformer(tower_module(tower).transformer, path / name)
    srsly.write_json(path / "bi_encoder.json", model.attrs["settings"])


def _save_transformer(transformer: Any, path: Path) -> None:
    path.mkdir(exist_ok=True)
    transformer.config.to_json_file(path / "config.json", use_diff=False)
    partial = path / "model.safetensors.part"
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in transformer.state_dict().items()}
    save_file(weights, partial, metadata={"format": "pt"})
    os.replace(partial, path / "model.safetensors")


def load(path: Path, precision: str) -> Model:
    """Read what `save` wrote, whatever its settings, to compute in `precision`, which is the reader's to choose.
    RAISES: PelError naming the folder where a file is missing or broken."""
    try:
        settings: Any = srsly.read_json(path / "bi_encoder.json")
        model = make_bi_encoder(**{**settings, "precision": precision})
        tokenizer = AutoTokenizer.from_pretrained(path / "tokenizer", local_files_only=True)
        model.attrs["row_builder"] = builder = RowBuilder(tokenizer, model.attrs["row_settings"])
        for name, tower in zip(TOWERS, model.layers, strict=False):
            set_transformer(tower, _load_transformer(path / name), builder.pad, builder.markers)
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise PelError(f"{path}: no bi-encoder can be read from this folder ({error}); copy it again.") from error
    return model


def _load_transformer(path: Path) -> Any:
    config = AutoConfig.from_pretrained(path, local_files_only=True)
    with no_init_weights():
        transformer = AutoModel.from_config(
            config, torch_dtype=torch.float32, **attention_for(get_torch_default_device())
        )
    transformer.pooler = None
    transformer.load_state_dict(_load_weights(path / "model.safetensors"))
    return transformer


def _load_weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except Exception as error:  # safetensors' own error type is a bare Exception
        raise PelError(f"{path}: not a readable safetensors file ({error})") from error
