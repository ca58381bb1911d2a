"""Encode the same token rows in PyTorch, in ONNX Runtime and in OpenVINO, in float32 and in int8: rows a second, and
recall@1 beside it.

`pip install onnx onnxruntime openvino nncf` has the other runtimes. Prints a table and writes it as JSON.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any

import nncf
import numpy as np
import onnxruntime
import openvino
import spacy
import srsly
import torch
import typer
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import nn
from tqdm import tqdm
from wasabi import msg

from spacy_pel.corpora.docbin import read_docs
from spacy_pel.kb.index.vectors import VectorIndex
from spacy_pel.mentions.gold import gold_mentions
from spacy_pel.models.bi_encoder import row_builder
from spacy_pel.models.encoder import Tower, token_batches, tower_module
from spacy_pel.models.openvino import CompiledTransformer, LastStates
from spacy_pel.models.predictions import for_predictions
from spacy_pel.models.token_rows import PaddedBatch

CALIBRATED_ON = 64  # batches; for what quantises inputs beforehand
Batch = tuple[np.ndarray, PaddedBatch]
States = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def main(
    pipeline: Annotated[Path, typer.Argument(help="An indexed pipeline; its KB is encoded anew by each runtime")],
    corpus: Annotated[Path, typer.Argument(help="Gold mentions")],
    output: Annotated[Path, typer.Argument(help="JSON file for the figures")],
    threads: Annotated[int, typer.Option(help="Of every runtime")] = 2,
    only: Annotated[list[str] | None, typer.Option(help="Only these runtimes")] = None,
) -> None:
    """Measure one runtime after the other; figures of those that are not run again stay in the file."""
    torch.set_num_threads(threads)
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("pel_linker")
    kb, model = linker.kb, linker.model
    gold = [m for doc in read_docs(corpus, nlp.vocab) for m in gold_mentions(doc) if any(id in kb for id in m.ids)]
    builder = row_builder(model)
    mention_rows, place = builder.mentions([m.span for m in gold]).unique()
    entity_rows, ids = builder.entities(kb.entities()), [entity.id for entity in kb.entities()]
    towers = {"mentions": model.get_ref("mention_tower"), "entities": model.get_ref("entity_tower")}
    rows = {"mentions": mention_rows, "entities": entity_rows}
    batches = {side: list(token_batches(towers[side], rows[side])) for side in towers}
    figures: dict[str, Any] = dict(srsly.read_json(output)) if output.is_file() else {}
    for name in only or RUNTIMES:
        measured, encoded = {}, {}
        for side, n in ((side, len(own)) for side, own in rows.items()):
            tower = tower_module(towers[side])
            with TemporaryDirectory() as folder:
                states = RUNTIMES[name](tower, batches[side], Path(folder), threads)
                encoded[side], seconds = encode(tower, states, batches[side], n, f"{name}: {side}")
            measured[f"{side}_per_second"] = n / seconds
        best = VectorIndex.build(encoded["entities"]).search(encoded["mentions"][place], 1)[1][:, 0]
        measured["recall_at_1"] = float(np.mean([ids[top] in m.ids for top, m in zip(best, gold, strict=True)]))
        figures[name] = measured
        srsly.write_json(output, figures)
        msg.table(list(measured.items()), header=(name, ""), divider=True)


def encode(tower: Tower, states: States, batches: list[Batch], n: int, desc: str) -> tuple[np.ndarray, float]:
    """The vectors (n, hidden) and the seconds that they took; the first batch warms up."""
    vectors = np.empty((n, tower.transformer.config.hidden_size), dtype=np.float32)
    with torch.no_grad():
        states(*_tensors(batches[0][1]))
        start = perf_counter()
        for places, batch in tqdm(batches, desc=desc):
            ids, mask = _tensors(batch)
            vectors[places] = tower.pooling(states(ids, mask).float(), ids, mask).numpy()
    return vectors, perf_counter() - start


def _tensors(batch: PaddedBatch) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.as_tensor(batch.ids), torch.as_tensor(batch.mask)


def ours(tower: Tower, _batches: list[Batch], _folder: Path, _threads: int, precision: str) -> States:
    """The tower of `precision`, as the linker predicts."""
    own = copy.copy(tower)
    own.precision, own._copies = precision, {}
    return lambda ids, mask: own.states(ids, mask, None)


def torch_dynamic(tower: Tower, _batches: list[Batch], _folder: Path, _threads: int) -> States:
    """PyTorch's own dynamic quantisation of linear layers."""
    transformer = for_predictions(tower.transformer, torch.float32)
    small = torch.ao.quantization.quantize_dynamic(copy.deepcopy(transformer), {nn.Linear}, torch.qint8)
    return lambda ids, mask: small(input_ids=ids, attention_mask=mask).last_hidden_state


def onnx_runtime(tower: Tower, _batches: list[Batch], folder: Path, threads: int, *, small: bool) -> States:
    """ONNX Runtime; `small`: its dynamic quantisation, with a scale for each output."""
    path = export(tower, folder)
    if small:
        quantize_dynamic(path, folder / "int8.onnx", weight_type=QuantType.QInt8, per_channel=True)
        path = folder / "int8.onnx"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda ids, mask: torch.from_numpy(
        session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.long().numpy()})[0]
    )


def by_openvino(tower: Tower, _batches: list[Batch], _folder: Path, _threads: int, dtype: torch.dtype) -> States:
    """As `precision = "openvino"` and `"openvino-int8"` do."""
    compiled = CompiledTransformer(for_predictions(tower.transformer, torch.float32), dtype)
    words = compiled.get_input_embeddings()
    return lambda ids, mask: compiled(inputs_embeds=words(ids), attention_mask=mask).last_hidden_state


def calibrated(tower: Tower, batches: list[Batch], folder: Path, threads: int) -> States:
    """OpenVINO with a transformer that NNCF has quantised, calibrated on some of the rows."""
    some = batches[:: max(1, len(batches) // CALIBRATED_ON)]
    inputs = [{"input_ids": b.ids, "attention_mask": b.mask.astype(np.int64)} for _, b in some]
    model = openvino.convert_model(str(export(tower, folder)))
    small = nncf.quantize(model, nncf.Dataset(inputs), model_type=nncf.ModelType.TRANSFORMER)
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False}
    compiled = openvino.compile_model(small, "CPU", settings)
    return lambda ids, mask: torch.from_numpy(
        compiled({"input_ids": ids.numpy(), "attention_mask": mask.long().numpy()})[0]
    )


def export(tower: Tower, folder: Path) -> Path:
    """Write the transformer of `tower` as ONNX, for batches of any shape."""
    names, axes = ["input_ids", "attention_mask"], {0: "rows", 1: "tokens"}
    torch.onnx.export(
        LastStates(for_predictions(tower.transformer, torch.float32), names).eval(),
        (torch.ones(2, 8, dtype=torch.long), torch.ones(2, 8, dtype=torch.long)),
        str(folder / "float32.onnx"),
        input_names=names,
        output_names=["states"],
        dynamic_axes=dict.fromkeys([*names, "states"], axes),
        dynamo=False,
    )
    return folder / "float32.onnx"


RUNTIMES: dict[str, Callable[[Tower, list[Batch], Path, int], States]] = {
    "PyTorch, float32": partial(ours, precision="fp32"),
    "PyTorch, bfloat16": partial(ours, precision="bf16"),
    'PyTorch, "int8"': partial(ours, precision="int8"),
    "PyTorch, its dynamic int8": torch_dynamic,
    "ONNX Runtime, float32": partial(onnx_runtime, small=False),
    "ONNX Runtime, dynamic int8": partial(onnx_runtime, small=True),
    "OpenVINO, float32": partial(by_openvino, dtype=torch.float32),
    "OpenVINO, bfloat16": partial(by_openvino, dtype=torch.bfloat16),
    'OpenVINO, "openvino-int8"': partial(by_openvino, dtype=torch.int8),
    "OpenVINO, int8 by NNCF": calibrated,
}


if __name__ == "__main__":
    typer.run(main)
