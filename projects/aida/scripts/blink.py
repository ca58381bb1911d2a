"""The two encoders in BLINK's file of weights, as folders that `spacy_pel.HFEncoder.v1` loads."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from pickle import UnpicklingError
from typing import Annotated, Any

import torch
import typer
from transformers import AutoConfig, AutoModel, AutoTokenizer

from spacy_pel.errors import PelError
from spacy_pel.files.folders import new_folder
from spacy_pel.models.inputs import MARKERS, add_markers
from spacy_pel.models.no_code import reason

PREFIXES = {"mention": "context_encoder.bert_model.", "entity": "cand_encoder.bert_model."}
UNUSED = ("[unused0]", "[unused1]", "[unused2]")  # what BLINK writes in the place of [Ms], [Me] and [ENT]
UNREAD = (OSError, RuntimeError, EOFError, UnpicklingError, ValueError)  # what reading no or a part of a file raises


def main(
    weights: Annotated[Path, typer.Argument(help="biencoder_wiki_large.bin")],
    output: Annotated[Path, typer.Argument(help="Folder for mention/ and entity/")],
    bert: Annotated[str, typer.Option(help="What BLINK began with: a name or a folder")] = "bert-large-uncased",
) -> None:
    """Write both encoders, or neither. Their marker tokens begin with the vectors that BLINK has learnt for its own."""
    try:
        states, tokenizer = read_weights(weights), read_tokenizer(bert)
        unused = [tokenizer.vocab[token] for token in UNUSED]
        add_markers(tokenizer)
        markers = tokenizer.convert_tokens_to_ids(list(MARKERS))
        with ExitStack() as both:
            for name, prefix in PREFIXES.items():
                folder = both.enter_context(new_folder(output / name))
                own = {key.removeprefix(prefix): value for key, value in states.items() if key.startswith(prefix)}
                model = filled(AutoModel.from_config(AutoConfig.from_pretrained(bert)), own, f"{weights}: {name}", bert)
                model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
                vectors = model.get_input_embeddings().weight.data
                vectors[markers] = vectors[unused]
                model.save_pretrained(folder)
                tokenizer.save_pretrained(folder)
                typer.echo(f"{output / name}: {len(own)} tensors")
    except (OSError, PelError) as error:
        typer.secho(f"✘ {error}", fg="red", err=True)
        raise typer.Exit(1) from error


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """The tensors in BLINK's file, by their names.

    Raises:
        PelError: It is not there, not whole, or holds something else.
    """
    origin = "get it from https://github.com/facebookresearch/BLINK"
    if not path.is_file():
        raise PelError(f"{path} is not there: {origin}")
    try:
        states: Any = torch.load(path, map_location="cpu", weights_only=True)
    except UNREAD as error:
        raise PelError(f"{path} is no whole file of weights ({reason(error)}): {origin} again") from error
    if not isinstance(states, dict) or not all(isinstance(value, torch.Tensor) for value in states.values()):
        raise PelError(f"{path} holds no tensors by name: {origin}")
    return states


def read_tokenizer(bert: str) -> Any:
    """The tokenizer of a BERT.

    Raises:
        PelError: It is not there, or lacks what BLINK has in the place of markers.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(bert)
    except UNREAD as error:
        raise PelError(f"--bert {bert} has no tokenizer ({reason(error)}): name what BLINK began with") from error
    if missing := [token for token in UNUSED if token not in tokenizer.vocab]:
        raise PelError(f"--bert {bert} has no token {missing[0]}: name what BLINK began with")
    return tokenizer


def filled(model: Any, own: dict[str, torch.Tensor], where: str, bert: str) -> Any:
    """`model` with the weights `own`.

    Raises:
        PelError: They are not all of its weights, or of another shape.
    """
    try:
        missing, unknown = model.load_state_dict(own, strict=False)
    except RuntimeError as error:
        raise PelError(f"{where}: not of the shape of {bert} ({str(error).splitlines()[-1].strip()})") from error
    if left := [key for key in (*missing, *unknown) if "pooler" not in key and "position_ids" not in key]:
        raise PelError(f"{where}: not the weights of {bert}, which differ in {left[0]}: name what BLINK began with")
    return model


if __name__ == "__main__":
    typer.run(main)
