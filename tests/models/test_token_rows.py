"""Token rows: batches of like length, padding, duplicates."""

from __future__ import annotations

import numpy as np

from spacy_pel.models.token_rows import TokenRows

ROWS = [[5, 6, 7], [8], [], [5, 6, 7], [1, 2, 3, 4, 5], [9, 9]]


def test_rows_come_back_as_they_went_in():
    rows = TokenRows.from_lists(ROWS)
    assert [row.tolist() for row in (rows[i] for i in range(len(rows)))] == ROWS
    assert rows.lengths.tolist() == [3, 1, 0, 3, 5, 2]
    assert [rows.take([4, 1])[i].tolist() for i in range(2)] == [[1, 2, 3, 4, 5], [8]]
    both = TokenRows.concatenate([rows, rows.take([1])])
    assert [both[i].tolist() for i in range(7)] == [*ROWS, [8]]
    assert len(TokenRows.concatenate([])) == 0


def test_batches_hold_every_row_once_and_pad_to_their_longest():
    rng = np.random.default_rng(0)
    rows = TokenRows.from_lists(rng.integers(1, 100, size=n).tolist() for n in rng.integers(1, 40, size=500))
    seen = []
    for indices, batch in rows.batches(256, pad=0):
        assert batch.ids.size <= 256 and batch.ids.shape[1] == batch.mask.sum(1).max()
        for i, row in enumerate(indices):
            assert batch.ids[i][batch.mask[i]].tolist() == rows[row].tolist()
            assert (batch.ids[i][~batch.mask[i]] == 0).all()
        seen.extend(indices.tolist())
    assert sorted(seen) == list(range(500))


def test_short_rows_are_not_padded_to_the_width_of_a_few_long_ones():
    rows = TokenRows.from_lists([[1] * 64] * 20 + [[1] * 8] * 200)
    sizes = [(len(indices), batch.ids.size) for indices, batch in rows.batches(4096, pad=0)]
    assert sizes == [(20, 20 * 64), (200, 200 * 8)]
    few = TokenRows.from_lists([[1] * 64] * 2 + [[1] * 8] * 200)  # of which a quarter full is the least
    assert [batch.ids.shape for _, batch in few.batches(4096, pad=0)] == [(16, 64), (186, 8)]


def test_a_row_longer_than_a_batch_is_a_batch():
    rows = TokenRows.from_lists([list(range(1, 301)), [1]])
    assert [indices.tolist() for indices, _ in rows.batches(256, pad=0)] == [[0], [1]]


def test_equal_rows_are_found():
    distinct, inverse = TokenRows.from_lists(ROWS).unique()
    assert [distinct[i].tolist() for i in range(len(distinct))] == [[5, 6, 7], [8], [], [1, 2, 3, 4, 5], [9, 9]]
    assert inverse.tolist() == [0, 1, 2, 0, 3, 4]


def test_steps_go_to_their_batches():
    rows = TokenRows.from_lists(ROWS[:2])
    steps = [np.ones((1, 3, 2)), np.zeros((1, 1, 2))]
    assert [batch.step is step for (_, batch), step in zip(rows.with_steps(steps).batches(3, 0), steps)] == [True] * 2
