"""Inner products in bfloat16, where the processor multiplies it twice as fast as float32, that find what float32 would.

Half as many candidates again as are asked for are found by them, and compared again in float32. How far off the
products can be is known from what rounding takes from the vectors; a query whose candidates might lack one is told, for
a search of all vectors.
"""

from __future__ import annotations

import os
import warnings
from functools import partial

import numpy as np
import torch

from ..numbering import VectorNumbers

GROUP = 16  # vectors of which first the best counts
ROUNDING = 2.0**-9  # of a number in bfloat16, relative
DEVIATIONS = 8  # of products, by which one is never off
LEAST_QUERIES = 20  # for fewer, it would take longer to read the vectors than to multiply them
PRODUCTS = 1 << 24  # that are held at once

if hasattr(os, "register_at_fork"):  # the threads of OpenMP do not survive a fork
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


def is_faster(n_vectors: int, n_queries: int, k: int) -> bool:
    """Whether this is faster here than a search in float32."""
    return n_queries >= LEAST_QUERIES and n_vectors >= 4 * GROUP * _depth(k) and _has_bf16()


def _has_bf16() -> bool:
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))


def _depth(k: int) -> int:
    return k + k // 2 + 1


class RoundedVectors:
    """Vectors in bfloat16 beside those that they were."""

    def __init__(self, vectors: np.ndarray) -> None:
        """Round `vectors` (n, dim) float32, which are kept as they are."""
        with warnings.catch_warnings():  # they may be mapped, so that nobody can write to them; nobody does
            warnings.simplefilter("ignore", UserWarning)
            self._exact = torch.from_numpy(vectors)
        spare = -len(vectors) % GROUP
        self._rounded = torch.cat([self._exact, self._exact[:spare]]).bfloat16()
        self._longest = float(_fourth(self._exact).max())

    @torch.inference_mode()
    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, VectorNumbers, np.ndarray]:
        """Find the vectors with the largest inner products.

        Args:
            queries: (q, dim) float32.
            k: How many to find.

        Returns:
            Scores (q, m) float32 and numbers (q, m), more than `k` and in no order; and which queries (q,) may lack
            one of their `k` best.
        """
        size = max(PRODUCTS // len(self._rounded), LEAST_QUERIES)
        blocks = [self._search(block, k) for block in torch.from_numpy(queries).split(size)]
        scores, numbers, unsure = (torch.cat(parts).numpy() for parts in zip(*blocks, strict=True))
        return scores, VectorNumbers(numbers), unsure

    def _search(self, queries: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        found, numbers = self._candidates(queries, _depth(k))
        vectors = self._exact.index_select(0, numbers.clamp_min(0).flatten()).view(*numbers.shape, -1)
        scores = torch.bmm(vectors, queries[:, :, None])[:, :, 0].where(numbers >= 0, -torch.inf)
        left_out = found.amin(1)  # or less
        off = DEVIATIONS * ROUNDING * 2**0.5 * _fourth(queries) * self._longest + ROUNDING * left_out.abs()
        return scores, numbers, scores.topk(k).values[:, -1] <= left_out + off

    def _candidates(self, queries: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The `n` largest products (q, n) and the numbers (q, n) of their vectors; -1 for one that is there twice."""
        products = (self._rounded @ queries.bfloat16().T).view(-1, GROUP, len(queries))
        groups = products.amax(1).T.contiguous().topk(n, sorted=False).indices
        members = products.gather(0, groups.T[:, None].expand(-1, GROUP, -1))
        best = members.permute(2, 0, 1).flatten(1).topk(n, sorted=False)
        numbers = groups.gather(1, best.indices // GROUP) * GROUP + best.indices % GROUP
        return best.values.float(), torch.where(numbers < len(self._exact), numbers, -1)


def _fourth(vectors: torch.Tensor) -> torch.Tensor:
    """The 4-norms (n,) of `vectors` (n, dim): the products of the squares of two vectors sum up to at most that of
    their squared 4-norms, and what rounding takes from a product deviates as the root of that sum."""
    return vectors.norm(4, dim=1)
