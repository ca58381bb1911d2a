"""What is set for the whole process before the first product."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
GROWTH = """
import ctypes, torch
from spacy_pel.models.precision import compute_dtype

class Info(ctypes.Structure):  # of mallinfo2
    _fields_ = [(f"n{i}", ctypes.c_size_t) for i in range(10)]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
weights = torch.randn(384, 1536, dtype=torch.bfloat16)

def used_after(rows):
    for n in rows:
        torch.randn(n, 384, dtype=torch.bfloat16) @ weights
    return libc.mallinfo2().n7

first = used_after(range(1, 101))
print(used_after(range(101, 301)) - first)
"""


def printed(code: str, **variables: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name not in CACHES}
    environment = {**inherited, "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_caches_of_compiled_products_are_small_unless_the_user_has_set_them():
    code = f"import os, spacy_pel.models.precision; print(*(os.environ[name] for name in {CACHES}))"
    assert printed(code).split() == ["64", "64"]
    assert printed(code, LRU_CACHE_CAPACITY="7").split() == ["64", "7"]


@pytest.mark.skipif(not hasattr(__import__("ctypes").CDLL(None), "mallinfo2"), reason="not glibc")
def test_new_shapes_of_products_do_not_take_ever_more_memory():
    assert int(printed(GROWTH)) < 2_000_000
