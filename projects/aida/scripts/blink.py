"""The two encoders in BLINK's file of weights, as folders that `spacy_pel.HFEncoder.v1` loads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from transformers import AutoConfig, AutoModel, AutoTokenizer

from spacy_pel.models.inputs import MARKERS, add_markers

PREFIXES = {"mention": "context_encoder.bert_model.", "entity": "cand_encoder.bert_model."}
UNUSED = ("[unused0]", "[unused1]", "[unused2]")  # what BLINK writes in the place of [Ms], [Me] and [ENT]


def main(
    weights: Annotated[Path, typer.Argument(help="biencoder_wiki_large.bin")],
    output: Annotated[Path, typer.Argument(help="Folder for mention/ and entity/")],
    bert: Annotated[str, typer.Option(help="What BLINK began with: a name or a folder")] = "bert-large-uncased",
) -> None:
    """Write both encoders. Their marker tokens begin with the vectors that BLINK has learnt for its own."""
    if not weights.is_file():
        typer.secho(
            f"✘ {weights} is not there: get it from https://github.com/facebookresearch/BLINK", fg="red", err=True
        )
        raise typer.Exit(1)
    states: dict[str, Any] = torch.load(weights, map_location="cpu", weights_only=True)
    tokenizer = AutoTokenizer.from_pretrained(bert)
    unused = [tokenizer.vocab[token] for token in UNUSED]
    add_markers(tokenizer)
    markers = tokenizer.convert_tokens_to_ids(list(MARKERS))
    for name, prefix in PREFIXES.items():
        model = AutoModel.from_config(AutoConfig.from_pretrained(bert))
        own = {key.removeprefix(prefix): value for key, value in states.items() if key.startswith(prefix)}
        missing, unknown = model.load_state_dict(own, strict=False)
        if left := [key for key in (*missing, *unknown) if "pooler" not in key and "position_ids" not in key]:
            raise typer.BadParameter(f"{weights} has no {name} encoder of the shape of {bert}: {left[0]}")
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        vectors = model.get_input_embeddings().weight.data
        vectors[markers] = vectors[unused]
        model.save_pretrained(output / name)
        tokenizer.save_pretrained(output / name)
        typer.echo(f"{output / name}: {len(own)} tensors")


if __name__ == "__main__":
    typer.run(main)
