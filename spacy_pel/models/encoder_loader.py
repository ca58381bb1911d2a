"""`spacy_pel.HFEncoder.v1`: the `encoder_loader` of `[initialize.components.pel_linker]`."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import srsly

from ..checks import check_number, check_text, refused
from ..errors import PelError
from ..files.parts import Layout
from .inputs import add_markers
from .no_code import NO_CODE, reason, without_kernel

SECTION = "[encoder_loader] spacy_pel.HFEncoder.v1"
LARGEST_DROPOUT = 0.99
MISSING_SHOWN = 3
POOLER = "pooler."
MODEL, TOKENIZER, TOWERS = "model", "tokenizer", ("mention", "entity")  # folders of a linker, see `models.storage`
BI_ENCODER, WEIGHTS, CODES = "bi_encoder.json", "model.safetensors", "codes.safetensors"  # files of it
# What encoders of BERT's, RoBERTa's, MPNet's and DistilBERT's kind call the dropout of hidden states and of attention.
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")


class PretrainedEncoder(NamedTuple):
    """A pretrained transformer and its tokenizer, the marker tokens added to both.

    Attributes:
        transformer: The transformer.
        tokenizer: Its tokenizer.
        for_entities: Another transformer of the same tokenizer and vector size, for entities; None: there is only one.
        pooler: The linear layer of BERT's pooler, from the state of the first token (hidden) to (hidden), which only a
            cross-encoder can have a use for; None: the checkpoint has none.
        linker: The folder of the saved linker that all this is of; None: it is of none.
        codes: (c, hidden), the codes with which that linker reads mentions; None: it has none.
        projection: The state dict of its linear layer behind a transformer pipe; None: it has none.
    """

    transformer: Any
    tokenizer: Any
    for_entities: Any = None
    pooler: Any = None
    linker: str | None = None
    codes: Any = None
    projection: Any = None


class HFEncoder:  # no dataclass: spaCy hands those to `initialize` as dicts
    """Loads a pretrained Hugging Face encoder of BERT's kind when the pipeline is initialised."""

    def __init__(
        self, name: str, revision: str | None = None, dropout: float = 0.1, entity_name: str | None = None
    ) -> None:
        """Say what to load.

        Args:
            name: A folder (config.json, model.safetensors, tokenizer files), the folder of a saved linker, such as
                "training/model-last/pel_linker", of which all that it has learnt is taken (of one that listens to a
                transformer pipe, the encoder of entities and the linear layer), or a name on the Hugging Face hub, such
                as "cambridgeltl/SapBERT-from-PubMedBERT-fulltext".
            revision: A commit, tag or branch of the hub's repository.
            dropout: Of hidden states and of attention. `[training] dropout` does not reach a transformer.
            entity_name: Another encoder, with the same vocabulary and vector size, for the entities, where a bi-encoder
                has been pretrained as one, such as BLINK; None: the same as for mentions. `revision` is not for it.
        """
        check_text(SECTION, "name", name, "give a folder or a name on the Hugging Face hub")
        check_text(SECTION, "revision", revision, "name a commit, tag or branch", optional=True)
        check_number(SECTION, "dropout", dropout, least=0, most=LARGEST_DROPOUT)
        check_text(SECTION, "entity_name", entity_name, "give a folder or a name on the hub", optional=True)
        self.name = name
        self.revision = revision
        self.dropout = dropout
        self.entity_name = entity_name

    def __call__(self) -> PretrainedEncoder:
        """Load it.

        Raises:
            PelError: Nothing can be loaded from `name` or `entity_name`, or only an encoder of a kind that is not read
                with, or the two do not fit each other.
        """
        linker = Layout(hashed=(MODEL,)).read(Path(self.name))
        if linker is not None and (model := linker.path(MODEL)) is not None and (model / TOWERS[0]).is_dir():
            linker.check(MODEL)
            return self._towers(model)
        encoder = self._load(self.name, self.revision)
        if self.entity_name is None:
            return encoder
        other = self._load(self.entity_name, None)
        if other.tokenizer.get_vocab() != encoder.tokenizer.get_vocab():
            raise self._refused("has another vocabulary")
        if other.transformer.config.hidden_size != encoder.transformer.config.hidden_size:
            raise self._refused("has vectors of another size")
        return encoder._replace(for_entities=other.transformer)

    def _towers(self, model: Path) -> PretrainedEncoder:
        """Load both towers of a linker, or the one that it has, and its codes or its projection."""
        from .weights import load_weights, reading

        if self.entity_name is not None:
            raise refused(SECTION, "entity_name", self.entity_name, f"leave it out: {self.name!r} has towers for both")
        mention, entity = (model / tower for tower in TOWERS)
        with reading(model, "bi-encoder"):
            settings: Any = srsly.read_json(model / BI_ENCODER)
            listens = "upstream" in settings
            projection = load_weights(mention / WEIGHTS) if listens else None
            codes = load_weights(mention / CODES)["codes"] if (mention / CODES).exists() else None
        towers = [entity] if listens else [mention, *([entity] if entity.is_dir() else [])]
        first, *others = (self._load(str(tower), None, model / TOKENIZER) for tower in towers)
        for_entities = others[0].transformer if others else None
        return first._replace(for_entities=for_entities, linker=self.name, codes=codes, projection=projection)

    def _refused(self, what: str) -> PelError:
        return refused(
            SECTION, "entity_name", self.entity_name, f"it {what} than {self.name!r}; name the two halves of one model"
        )

    def _load(self, name: str, revision: str | None, tokenizer_folder: Path | None = None) -> PretrainedEncoder:
        import torch
        from thinc.api import get_torch_default_device
        from transformers import AutoConfig, AutoModel, AutoTokenizer

        from .weights import attention_for

        source = {"revision": revision, "local_files_only": Path(name).is_dir(), **NO_CODE}
        try:
            tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder or name, **source)
            config = without_kernel(AutoConfig.from_pretrained(name, **source))
            for key in DROPOUTS:
                if hasattr(config, key):
                    setattr(config, key, self.dropout)
            attention = attention_for(get_torch_default_device())
            with _quiet():
                transformer, info = AutoModel.from_pretrained(
                    name, config=config, torch_dtype=torch.float32, output_loading_info=True, **source, **attention
                )
        except Exception as error:  # transformers, tokenizers, safetensors and torch raise whatever they meet
            raise PelError(
                f"{SECTION}: no encoder can be loaded from {name!r}; give a folder with config.json, model.safetensors "
                "and tokenizer.json of one model, each whole and no pointer of git-lfs, or a name on the hub "
                f"({reason(error)})."
            ) from error
        if not hasattr(transformer, "embeddings"):
            kind = transformer.config.model_type
            raise PelError(
                f"{SECTION}: {name!r} is of the kind {kind}, which nothing reads with; name one of BERT's kind."
            )
        missing = [key for key in info["missing_keys"] if not key.startswith(POOLER)]
        if missing:
            warnings.warn(
                f"{SECTION}: {name!r} lacks {len(missing)} of the encoder's weights, which begin at random: "
                f"{', '.join(missing[:MISSING_SHOWN])}{', …' if len(missing) > MISSING_SHOWN else ''}.",
                stacklevel=3,
            )
        add_markers(tokenizer)
        has_pooler = len(missing) == len(info["missing_keys"])
        pooler = getattr(transformer, "pooler", None) if has_pooler else None
        pooler = getattr(pooler, "dense", pooler)  # ALBERT's is that layer itself
        transformer.pooler = None
        transformer.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        return PretrainedEncoder(transformer, tokenizer, pooler=pooler)


@contextmanager
def _quiet() -> Iterator[None]:
    """Let transformers say nothing of weights that are missing, or too many: those of a pooler always are."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def check_fits(longest: int, encoder: PretrainedEncoder, section: str = "[components.pel_linker.model]") -> None:
    """Check that an encoder can read rows of `longest` tokens, which the settings in `section` allow.

    Raises:
        PelError: It has fewer positions.
    """
    limit = _positions(encoder.transformer) or longest
    if longest > limit:
        raise PelError(
            f"{section}: rows of {longest} tokens are longer than the {limit} positions of the encoder; lower "
            "mention_length (window, of documents) or entity_length."
        )


def dropout_of(config: Any) -> float:
    """The dropout of hidden states that the `config` of a transformer has; 0 where it names none."""
    return next((float(getattr(config, key)) for key in DROPOUTS if hasattr(config, key)), 0.0)


def _positions(transformer: Any) -> int | None:
    """Return the longest row an encoder takes. Those of RoBERTa's kind count from behind the padding's position."""
    padding = getattr(transformer.embeddings, "padding_idx", None)
    positions = getattr(transformer.config, "max_position_embeddings", None)
    return positions if padding is None or positions is None else positions - padding - 1
