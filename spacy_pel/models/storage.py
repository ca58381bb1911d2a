"""A bi-encoder on disk, and the fingerprint that tells its vectors from those of another.

model/
  bi_encoder.json               the settings it was built with
  tokenizer/                    Hugging Face tokenizer files
  mention/, entity/             one tower each: config.json, model.safetensors (shared towers: only `mention/`; of one
                                that listens to a transformer pipe model.safetensors only, its projection); of one
                                that reads with learnt codes codes.safetensors too
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import srsly
from spacy.util import registry
from thinc.api import Model

from ..kb.kinds import ENTITY, NAMES
from .bi_encoder import make_bi_encoder, make_transformer_listener, row_builder, score_of
from .encoder import set_transformer, tower_module
from .encoder_loader import BI_ENCODER, CODES, TOKENIZER, TOWERS, WEIGHTS
from .encoding import check_reads_names
from .inputs import RowBuilder
from .listener import is_listening, set_projection
from .several_pooling import Codes
from .weights import (
    load_tokenizer,
    load_transformer,
    load_weights,
    reading,
    save_tokenizer,
    save_transformer,
    save_weights,
)

SHAPE = ("model_type", "num_attention_heads", "hidden_act", "layer_norm_eps")  # of a transformer, not in its weights
TOWER_OF = {ENTITY: "entity_tower", NAMES: "mention_tower"}  # which reads what an index has vectors of
SETTINGS_OF = {
    ENTITY: ("entity_length", "similarity", "entity_template", "aliases"),
    NAMES: ("mention_length", "similarity", "pooling"),
}


def fingerprint(model: Model, kind: str = ENTITY) -> str:
    """Return a SHA-256 of all that decides the vector of an entity, or of a name: the weights and configuration of the
    tower that reads it, the tokenizer and the settings of its rows; of entities also how they are scored. Equal
    fingerprints mean equal vectors, up to the precision computed in.

    Args:
        model: A bi-encoder with weights.
        kind: What the vectors are of: "entity" or "names".

    Raises:
        PelError: The bi-encoder has no weights, or compares no vectors of names.
    """
    builder = row_builder(model)
    if kind == NAMES:
        check_reads_names(model)
    transformer: Any = tower_module(model.get_ref(TOWER_OF[kind])).transformer
    weights = transformer.state_dict()
    settings = {key: model.attrs["settings"][key] for key in SETTINGS_OF[kind]}
    settings |= {key: getattr(transformer.config, key, None) for key in SHAPE}
    if kind == ENTITY and model.attrs["settings"].get("pooling") == "cls":  # the others treat entities alike
        settings["pooling"] = "cls"
    if kind == ENTITY and (score := score_of(model).setting) is not None:
        settings["score"] = score
    if kind != ENTITY:
        settings["kind"] = kind
        settings |= {} if builder.settings.mentions == "windows" else {"mentions": builder.settings.mentions}
    return _digest(settings, builder, weights)


def mention_fingerprint(model: Model) -> str:
    """Return a SHA-256 of all that decides the vector of a mention: the settings of the bi-encoder, the tokenizer, and
    the weights of the tower that reads mentions; of a listener those of its projection, not of the pipe it listens to.

    Raises:
        PelError: The bi-encoder has no weights.
    """
    builder, module = row_builder(model), tower_module(model.get_ref("mention_tower"))
    settings = {key: value for key, value in model.attrs["settings"].items() if key != "precision"}
    config = getattr(getattr(module, "transformer", None), "config", None)
    settings |= {key: getattr(config, key, None) for key in SHAPE}
    return _digest(settings, builder, module.state_dict())


def _digest(settings: dict[str, Any], builder: RowBuilder, weights: dict[str, Any]) -> str:
    digest = hashlib.sha256(srsly.json_dumps(settings, sort_keys=True).encode())
    digest.update(builder.tokenizer.backend_tokenizer.to_str().encode())
    for name, tensor in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy())
    return digest.hexdigest()


def save(model: Model, path: Path) -> None:
    """Write the bi-encoder into the folder `path`. Each weight file is replaced whole, so one that is open (or mapped)
    elsewhere stays as it is there.

    Raises:
        PelError: The bi-encoder has no weights, or a file cannot be written.
    """
    path.mkdir(parents=True, exist_ok=True)
    save_tokenizer(row_builder(model).tokenizer, path / TOKENIZER)
    for name, tower in zip(TOWERS, model.layers, strict=False):
        (path / name).mkdir(exist_ok=True)
        module: Any = tower_module(tower)
        if is_listening(tower):
            save_weights(module, path / name / WEIGHTS)
        else:
            save_transformer(module.transformer, path / name)
            if isinstance(module.pooling, Codes):
                save_weights(module.pooling, path / name / CODES)
    srsly.write_json(path / BI_ENCODER, model.attrs["settings"])


def without_weights(settings: dict[str, Any]) -> Model:
    """Build the bi-encoder that has these `settings` among its attributes."""
    make = make_transformer_listener if "upstream" in settings else make_bi_encoder
    score = registry.resolve({"score": settings["score"]}) if "score" in settings else {}
    return make(**(settings | score))


def load(path: Path, precision: str) -> Model:
    """Read what `save` wrote, whatever its settings.

    Args:
        path: The folder.
        precision: What to compute in; that is the reader's to choose.

    Raises:
        PelError: A file of the folder is missing or broken.
    """
    with reading(path, "bi-encoder"):
        settings: Any = srsly.read_json(path / BI_ENCODER)
        model = without_weights({**settings, "precision": precision})
        model.attrs["row_builder"] = builder = RowBuilder(load_tokenizer(path / TOKENIZER), model.attrs["row_settings"])
        for name, tower in zip(TOWERS, model.layers, strict=False):
            if is_listening(tower):
                set_projection(tower, load_weights(path / name / WEIGHTS))
            else:
                if isinstance(codes := tower_module(tower).pooling, Codes):
                    codes.set_codes(load_weights(path / name / CODES)["codes"])
                set_transformer(tower, load_transformer(path / name), builder.pad, builder.markers)
    return model
