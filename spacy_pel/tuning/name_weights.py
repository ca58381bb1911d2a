"""The weights of the lexical score, fitted to gold mentions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from spacy.tokens import Doc
from tqdm import tqdm

from ..errors import PelError
from ..evaluation.ranking import CHUNK
from ..mentions.gold import GoldMention, gold_of
from ..mentions.ranked import RankedMention
from ..search.candidates import UNREADABLE, by_types, encode_distinct
from ..search.hybrid import find_by_both
from ..search.weights import Weights

if TYPE_CHECKING:
    from ..kb.knowledge_base import KnowledgeBase
    from ..pipeline.linker import PelLinker

STEPS = 200
NONE = Weights(0.0, 0.0)


class GoldCandidates(NamedTuple):
    """What either side of a KB finds for a gold mention: the ids of the candidates (n,), their similarities (n,), their
    lexical features (n, 2) and whether each is right (n,)."""

    mention: GoldMention
    ids: np.ndarray
    similarity: np.ndarray
    lexical: np.ndarray
    right: np.ndarray

    def ranked(self, weights: Weights) -> RankedMention:
        """The candidates as those weights rank them."""
        score = weights.score(self.similarity, self.lexical)
        order = np.argsort(-score, kind="stable")
        candidates = list(zip(self.ids[order].tolist(), score[order].tolist(), strict=True))
        return RankedMention(self.mention.ids, candidates, self.mention.form)


def find_for_gold(linker: PelLinker, docs: Iterable[Doc], k: int, *, progress: bool = False) -> list[GoldCandidates]:
    """`find_by_both` for the annotated mentions of `docs`, in no order to rely on, among the entities of the types that
    the linker allows; of an abbreviation for its long form.
    RAISES: PelError without a KB and its index, and for a KB that an older spacy-pel built."""
    kb = linker.searchable_kb()
    mentions = [m for m in gold_of(docs, kb) if m.ids]
    found: list[GoldCandidates] = []
    with tqdm(total=len(mentions), desc="Searching", unit=" mentions", disable=None if progress else True) as bar:
        for start in range(0, len(mentions), CHUNK):
            chunk = mentions[start : start + CHUNK]
            for one in _find_in_chunk(linker, kb, chunk, k):
                found.append(one)
                bar.update()
    return found


def _find_in_chunk(
    linker: PelLinker, kb: KnowledgeBase, mentions: Sequence[GoldMention], k: int
) -> Iterator[GoldCandidates]:
    index = kb.entity_index(linker.fingerprint)
    search = partial(index.search, n_probe=linker.n_probe, threads=linker.search_threads)
    spans = [mention.span for mention in mentions]
    types = [linker.types_for(span.label_) for span in spans]
    for i, long in linker.long_forms_of(spans).items():
        spans[i] = long
    for numbers, within in by_types(kb, types):
        vectors, places = encode_distinct(linker.model, [spans[i] for i in numbers])
        readable = [i for i, place in zip(numbers, places, strict=True) if place != UNREADABLE]
        if not readable:
            continue
        queries, texts = vectors[places[places != UNREADABLE]], [spans[i].text for i in readable]
        for number, own, similarity, lexical in find_by_both(kb, search, index, texts, queries, k, within):
            mention, ids = mentions[readable[number]], kb.ids(own)
            yield GoldCandidates(mention, ids, similarity, lexical, np.isin(ids, list(mention.ids)))


def fit_weights(found: Sequence[GoldCandidates]) -> Weights:
    """The weights of greatest likelihood, where a mention means a candidate with a probability in proportion to
    exp(a · (similarity + weights · lexical)), and none of them in proportion to exp(b): a conditional logit
    (McFadden 1974) with an outside option. a, b and the weights, which are positive, are fitted by L-BFGS.

    RAISES: `PelError` where no mention has its entity among its candidates.
    """
    if not any(one.right.any() for one in found):
        raise PelError("no mention has its entity among its candidates: there is nothing to fit the lexical score to")
    owner = torch.as_tensor(np.repeat(np.arange(len(found)), [len(one.ids) for one in found]))
    right = torch.as_tensor(np.concatenate([one.right for one in found]))
    features = torch.as_tensor(
        np.concatenate([np.column_stack([one.similarity, one.lexical]) for one in found]), dtype=torch.float64
    )
    without = torch.as_tensor([not one.right.any() for one in found])
    logs = torch.log(torch.tensor([1 / float(features[:, 0].std() + 1e-9), 0.1, 0.1], dtype=torch.float64))
    logs.requires_grad_()
    outside = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([logs, outside], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        scale, *weights = logs.exp()
        logits = scale * (features @ torch.stack([torch.ones_like(scale), *weights]))
        everything = torch.logaddexp(_log_sums(logits, owner, len(found)), outside)
        good = torch.where(without, outside, _log_sums(logits[right], owner[right], len(found)))
        value = (everything - good).mean()
        value.backward()
        return value

    optimizer.step(loss)
    ngram, exact = logs.detach().exp()[1:].tolist()
    return Weights(ngram, exact)


def _log_sums(values: torch.Tensor, owner: torch.Tensor, n: int) -> torch.Tensor:
    """log Σ exp of the `values` (m,) of each `owner` (m,), (n,); a very small number for one without any."""
    most = torch.full((n,), -1e9, dtype=values.dtype).scatter_reduce(0, owner, values.detach(), "amax")
    sums = torch.zeros(n, dtype=values.dtype).index_add(0, owner, (values - most[owner]).exp())
    return most + sums.clamp_min(1e-300).log()
