"""Which number format the towers compute in, and how many threads a forked process may use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec

import torch

from ..checks import check_choice, refused

BY_OPENVINO = {"openvino": "auto", "openvino-int8": "int8"}
PRECISIONS = ("auto", "fp32", "bf16", "int8", *BY_OPENVINO)

# oneDNN, and PyTorch's bridge to it, each keep what they compiled for the latest 1,024 shapes of products. Batches of
# text have ever new shapes: for MiniLM in bfloat16 that grows to some 400 MB. Both read this at their first product.
for _cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_cache, "64")


def check_precision(precision: str, section: str = "[components.pel_linker.model]") -> None:
    """Check that a precision exists, and what it needs.

    Raises:
        PelError: It does not, or OpenVINO is not installed.
    """
    check_choice(section, "precision", precision, PRECISIONS)
    if precision in BY_OPENVINO and find_spec("openvino") is None:
        raise refused(
            section, "precision", precision, 'it needs OpenVINO: run `python -m pip install "spacy-pel[openvino]"`'
        )


def compute_dtype(precision: str, device: torch.device, *, training: bool = False) -> torch.dtype:
    """Return the dtype of matrix products on `device`.

    "auto" takes bfloat16 where the hardware multiplies it (GPUs from Ampere on, CPUs with AMX or AVX-512 BF16), and
    float32 elsewhere. "int8" is for predictions on CPUs, and "auto" in training and on GPUs. Weights stay in float32.
    "openvino" is as "auto", and "openvino-int8" as "int8".
    """
    precision = BY_OPENVINO.get(precision, precision)
    if precision == "int8" and device.type == "cpu" and not training:
        return torch.int8
    if precision in ("auto", "int8"):
        return torch.bfloat16 if _has_bf16(device) else torch.float32
    return torch.bfloat16 if precision == "bf16" else torch.float32


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.version.hip is not None or torch.cuda.get_device_capability(device)[0] >= 8
    if device.type != "cpu":
        return False
    return _cpu_has_bf16(torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {})


def _cpu_has_bf16(capabilities: Mapping[str, object]) -> bool:
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))


def _one_thread() -> None:
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # a forked child that uses OpenMP's threads of its parent waits for ever
    os.register_at_fork(after_in_child=_one_thread)
