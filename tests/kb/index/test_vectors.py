"""Exact search and the vector file."""

from __future__ import annotations

import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import faiss
import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.files.hashes import sha256
from spacy_pel.kb.index.compressed import auto_type
from spacy_pel.kb.index.vectors import VectorIndex
from spacy_pel.kb.numbering import VectorNumbers


@pytest.fixture
def vectors() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(300, 16)).astype("float32")


@pytest.mark.parametrize("n_queries", [0, 1, 7, 64])  # below and above the BLAS threshold of 20
@pytest.mark.parametrize("k", [1, 5, 310])
def test_search_equals_brute_force(vectors, tmp_path, n_queries, k):
    queries = np.random.default_rng(2).normal(size=(n_queries, 16)).astype("float32")
    VectorIndex.write(tmp_path / "v.npy", [vectors], count=300, dim=16)
    products = queries @ vectors.T
    expected = np.argsort(-products, axis=1, kind="stable")[:, :k]
    for index in (VectorIndex.build(vectors), VectorIndex.open(tmp_path / "v.npy")):
        assert (len(index), index.dim) == (300, 16)
        scores, rows = index.search(queries, k)
        assert scores.shape == rows.shape == (n_queries, k)
        assert (scores.dtype, rows.dtype) == (np.float32, np.int64)
        assert (rows[:, :300] == expected).all()
        np.testing.assert_allclose(scores[:, :300], np.take_along_axis(products, expected, 1), rtol=1e-4, atol=1e-5)
        assert (rows[:, 300:] == -1).all() and (scores[:, 300:] == -np.inf).all()


def test_equal_scores_give_the_lower_row_first():
    vectors = np.repeat(np.eye(4, dtype="float32"), 6, axis=0)
    _, rows = VectorIndex.build(vectors).search(np.eye(4, dtype="float32"), 6)
    assert rows.tolist() == np.arange(24).reshape(4, 6).tolist()


def test_the_file_is_what_numpy_writes(vectors, tmp_path):
    VectorIndex.write(tmp_path / "ours.npy", [vectors[:100], vectors[100:100], vectors[100:]], count=300, dim=16)
    np.save(tmp_path / "theirs.npy", vectors)
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "theirs.npy").read_bytes()


def test_a_flat_file_of_faiss_is_read_as_the_array_that_it_holds(vectors, tmp_path):
    index = faiss.IndexFlatIP(16)
    index.add(vectors)
    faiss.write_index(index, str(tmp_path / "v.faiss"))
    ours, queries = VectorIndex.open(tmp_path / "v.faiss"), vectors[:30]
    for found, expected in zip(ours.search(queries, 9), VectorIndex.build(vectors).search(queries, 9), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(ours.vectors(np.array([3, 299])), vectors[[3, 299]])


def test_other_layouts_are_written_alike(vectors, tmp_path):
    hashes = set()
    for blocks in ([vectors], [np.asfortranarray(vectors)], [vectors.astype("float64")]):
        VectorIndex.write(tmp_path / "v.npy", blocks, count=300, dim=16)
        hashes.add(sha256(tmp_path / "v.npy"))
    assert len(hashes) == 1 and len(hashes.pop()) == 64


@pytest.mark.parametrize("array", [np.zeros(3, "float32"), np.zeros((3, 2)), np.array([None])])
def test_other_arrays_are_refused(tmp_path, array):
    np.save(tmp_path / "v.npy", array)
    with pytest.raises(PelError, match=r"v\.npy: (holds an array|numpy cannot read)"):
        VectorIndex.open(tmp_path / "v.npy")


def test_any_byte_of_the_head_of_an_array_may_be_another(tmp_path):
    """The file is read, or refused with an error that names it."""
    np.save(tmp_path / "v.npy", np.zeros((3, 2), "float32"))
    whole, refused = (tmp_path / "v.npy").read_bytes(), 0
    for at in range(128):
        for bit in (0, 3, 6):
            other = bytearray(whole)
            other[at] ^= 1 << bit
            (tmp_path / "v.npy").write_bytes(other)
            try:
                VectorIndex.open(tmp_path / "v.npy")
            except PelError as error:
                assert "v.npy" in str(error)
                refused += 1
    assert refused > 100


def test_other_index_types_are_refused(vectors, tmp_path):
    index = faiss.IndexFlatL2(16)
    index.add(vectors)
    faiss.write_index(index, str(tmp_path / "v.faiss"))
    with pytest.raises(PelError, match="IndexFlatL2 of distances, not of inner products"):
        VectorIndex.open(tmp_path / "v.faiss")


# --- compressed indexes ----------------------------------------------------------------------------------------------

COMPRESSED = [
    "IVF16,PQ8x4fs,Refine(SQ8)",
    "IVF1,PQ8x4fs,Refine(SQfp16)",
    "IVF16,Flat",
    "SQ8",
    "PQ8",
    "PQ8x4fs,Refine(SQ8)",
    "HNSW8",
    "OPQ8,IVF16,PQ8",
]


@pytest.fixture(scope="module")
def clustered() -> np.ndarray:
    """Unit vectors in clusters, as entities lie."""
    rng = np.random.default_rng(3)
    vectors = np.repeat(rng.normal(size=(200, 16)), 10, axis=0) + 0.3 * rng.normal(size=(2000, 16))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("float32")


@pytest.fixture(scope="module", params=COMPRESSED)
def compressed(request, clustered, tmp_path_factory) -> VectorIndex:
    path = tmp_path_factory.mktemp("index") / "v.faiss"
    VectorIndex.write(path, [clustered[:700], clustered[700:]], count=2000, dim=16, index_type=request.param)
    assert [file.name for file in path.parent.iterdir()] == ["v.faiss"]
    return VectorIndex.open(path)


def agreement(rows: np.ndarray, expected: np.ndarray) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(rows, expected, strict=True)]))


def test_a_compressed_index_finds_nearly_what_an_exact_one_does(compressed, clustered):
    queries = clustered[::9]
    scores, rows = compressed.search(queries, 5)
    exact_scores, exact = VectorIndex.build(clustered).search(queries, 5)
    assert len(compressed) == 2000 and agreement(rows, exact) > 0.6 and (rows[:, 0] == exact[:, 0]).mean() > 0.6
    np.testing.assert_allclose(scores, exact_scores, atol=0.4)


def test_filters_hold_in_a_compressed_index(compressed, clustered, monkeypatch):
    queries, some = clustered[::50], np.arange(0, 2000, 3)
    exact = VectorIndex.build(clustered[some]).search(queries, 5)[1]
    for block, least in ((50_000, 0.6), (10, 0.5)):  # every vector of the filter, or through the index
        monkeypatch.setattr("spacy_pel.kb.index.vectors.BLOCK", block)
        _, rows = compressed.search(queries, 5, within=some)
        assert np.isin(rows, some).all() and agreement(rows, some[exact]) > least


def test_vectors_come_back_about_as_they_were(compressed, clustered):
    rows = np.array([5, 3, 1999])
    assert (np.sum(compressed.vectors(rows) * clustered[rows], axis=1) > 0.7).all()


def test_more_cells_find_more(clustered, tmp_path):
    VectorIndex.write(tmp_path / "v.faiss", [clustered], count=2000, dim=16, index_type="IVF64,Flat")
    index = VectorIndex.open(tmp_path / "v.faiss")
    exact = VectorIndex.build(clustered).search(clustered[::9], 20)[1]
    found = []
    for n_probe in (1, 4, 64):
        found.append(agreement(index.search(clustered[::9], 20, n_probe=n_probe)[1], exact))
    assert found[0] < found[1] < found[2] == 1.0


def test_threads_are_those_asked_for_and_given_back(clustered, monkeypatch):
    seen, knn, before = [], faiss.knn, faiss.omp_get_max_threads()

    def noted(*arguments, **named):
        seen.append(faiss.omp_get_max_threads())
        return knn(*arguments, **named)

    monkeypatch.setattr(faiss, "knn", noted)
    faiss.omp_set_num_threads(3)
    try:
        VectorIndex.build(clustered).search(clustered[:3], 2, threads=2)
        assert seen == [2] and faiss.omp_get_max_threads() == 3
    finally:
        faiss.omp_set_num_threads(before)


@pytest.mark.parametrize("index_type", ["nonsense", "PQ7", "IVF5000,Flat"])
def test_an_index_type_that_cannot_be_built_is_named(clustered, tmp_path, index_type):
    with pytest.raises(PelError, match=f'--index-type "{index_type}" cannot be built for these vectors: '):
        VectorIndex.write(tmp_path / "v.faiss", [clustered], count=2000, dim=16, index_type=index_type)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "index_type, message",
    [
        ("HNSW8,PQ4x4", "cannot be built for these vectors: it is a faiss IndexHNSWPQ of distances"),
        ("IVF0,Flat", "cannot be searched: it visits 0 of 0 cells"),
        ("HNSW0", "cannot be built for these vectors: its graph needs at least 2 links"),
        ("HNSW1,SQ8", "cannot be built for these vectors: its graph needs at least 2 links"),
        ("IVF4_HNSW1,Flat", "cannot be built for these vectors: its graph needs at least 2 links"),
    ],
)
def test_an_index_type_that_cannot_be_searched_is_not_written(clustered, tmp_path, index_type, message):
    with pytest.raises(PelError, match=rf'--index-type "{index_type}" {message}.*; index again with another'):
        VectorIndex.write(tmp_path / "v.faiss", [clustered], count=2000, dim=16, index_type=index_type)
    assert not list(tmp_path.iterdir())


def test_no_room_for_what_faiss_writes(clustered, tmp_path, monkeypatch):
    def full(*_):
        raise RuntimeError("Error in write: No space left on device")

    monkeypatch.setattr("faiss.write_index", full)
    with pytest.raises(PelError, match=r"v\.faiss: cannot be written \(Error in write: No space left"):
        VectorIndex.write(tmp_path / "v.faiss", [clustered], count=2000, dim=16, index_type="SQ8")
    assert not list(tmp_path.iterdir())


def test_auto_is_exact_for_small_kbs_and_compressed_for_large_ones():
    assert auto_type(200_000, 384) == "flat"
    assert auto_type(2_400_000, 384) == "IVF1,PQ96x4fs,Refine(SQfp16)"
    assert auto_type(7_200_000, 384) == "IVF4096,PQ96x4fs,Refine(SQ8)"


def test_memory_is_taken_once_where_the_count_is_known():
    def blocks():
        return (np.full((500, 256), i, np.float64) for i in range(20))

    def peak(**count):
        tracemalloc.start()
        index = VectorIndex.stream(blocks(), 256, **count)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return index, most / (len(index) * 256 * 4)

    (known, once), (unknown, twice) = peak(count=10_000), peak()
    assert once < 1.3 < 1.8 < twice
    numbers = np.arange(10_000)
    np.testing.assert_array_equal(known.vectors(numbers), unknown.vectors(numbers))
    for wrong in (9_999, 10_001):
        with pytest.raises(PelError, match=f"expected {wrong}"):
            VectorIndex.stream(blocks(), 256, count=wrong)


def test_a_gpu_build_of_faiss_searches_a_copy(vectors, monkeypatch):
    """No GPU here: what faiss would call its copy on them is one on the CPU that counts."""

    class Copy:
        searched = 0

        def __init__(self, index):
            self.index = index

        def search(self, queries, k):
            self.searched += 1
            return self.index.search(queries, k)

    plain = VectorIndex.stream([vectors], vectors.shape[1], gpus=True)
    assert plain._copy is None, "without a GPU build nothing changes"
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1)
    monkeypatch.setattr(faiss, "index_cpu_to_all_gpus", Copy)
    with_copy = VectorIndex.stream([vectors], vectors.shape[1], gpus=True)
    for k, options, searched in ((5, {}, 1), (6, {}, 2), (5, {"within": np.arange(9)}, 2)):
        wanted, found = (index.search(vectors[:7], k, **options) for index in (plain, with_copy))
        np.testing.assert_array_equal(found[1], wanted[1])
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-6)
        assert with_copy._copy.searched == searched
    monkeypatch.setattr("spacy_pel.kb.index.vectors.MOST_ON_GPU", 100)
    with_copy.search(vectors[:7], 200)
    assert with_copy._copy.searched == 2, "more than faiss takes on a GPU"


# --- files that somebody else has made -------------------------------------------------------------------------------


def nsg(clustered) -> faiss.Index:
    index = faiss.index_factory(16, "NSG8,Flat", faiss.METRIC_INNER_PRODUCT)
    index.add(clustered[:500])
    return index


def refined(clustered) -> faiss.Index:
    index = faiss.IndexRefineFlat(faiss.index_factory(16, "NSG8,Flat", faiss.METRIC_INNER_PRODUCT))
    index.add(clustered[:500])
    return index


def in_cells_of_a_graph(clustered) -> faiss.Index:
    index = faiss.IndexIVFFlat(nsg(clustered), 16, 500, faiss.METRIC_INNER_PRODUCT)
    index.train(clustered)
    index.add(clustered)
    return index


def hnsw(clustered) -> faiss.IndexHNSWFlat:
    index = faiss.IndexHNSWFlat(16, 8, faiss.METRIC_INNER_PRODUCT)
    index.add(clustered[:500])
    return index


def with_a_link_out(clustered) -> faiss.Index:
    index = hnsw(clustered)
    links = faiss.rev_swig_ptr(index.hnsw.neighbors.data(), index.hnsw.neighbors.size())
    links[3] = 499 + 10**6
    return index


def that_looks_too_far(clustered) -> faiss.Index:
    index = hnsw(clustered)
    index.hnsw.efSearch = 2**31 - 1
    return index


def that_takes_too_many(clustered) -> faiss.Index:
    index = faiss.index_factory(16, "PQ8x4,RFlat", faiss.METRIC_INNER_PRODUCT)
    index.train(clustered)
    index.add(clustered)
    index.k_factor = 1e9
    return index


def with_another_number_of_cells(clustered) -> faiss.Index:
    index = faiss.index_factory(16, "IVF16,Flat", faiss.METRIC_INNER_PRODUCT)
    index.train(clustered)
    index.add(clustered)
    index.nprobe = 10**9
    return index


MADE = [
    (nsg, "is no index of faiss that spacy-pel writes"),
    (refined, "IndexNSGFlat is no kind of index"),
    (in_cells_of_a_graph, "IndexNSGFlat is no kind of index"),
    (with_a_link_out, r"cannot read this file as vectors \("),
    (that_looks_too_far, "its graph looks at 2147483647 vectors"),
    (that_takes_too_many, "times as many candidates|k_factor"),
    (with_another_number_of_cells, "visits 1000000000 of 16 cells|nprobe"),
]


@pytest.mark.parametrize("make, message", MADE, ids=[make.__name__ for make, _ in MADE])
def test_indexes_that_spacy_pel_never_writes_are_refused(clustered, tmp_path, make, message):
    faiss.write_index(make(clustered), str(tmp_path / "v.faiss"))
    with pytest.raises(PelError, match=message):
        VectorIndex.open(tmp_path / "v.faiss")


@pytest.mark.parametrize("index_type", ["NSG8,Flat", "RQ4x4", "IVF16,RaBitQ"])
def test_they_are_not_written_either(clustered, tmp_path, index_type):
    with pytest.raises(PelError, match="is no kind of index that a KB is searched with"):
        VectorIndex.write(tmp_path / "v.faiss", [clustered], count=2000, dim=16, index_type=index_type)


ENDS_THE_PROCESS = [
    ("IVF4,PQ8x4fs", "IndexIVFPQFastScan keeps no vectors that can be read again; add ,Refine"),
    ("OPQ8,IVF4,PQ8x4fs", "IndexIVFPQFastScan keeps no vectors that can be read again; add ,Refine"),
    ("IVF4,PQ8x4fs,Refine(PQ8x4fs)", "IndexPQFastScan cannot score candidates again"),
    ("PQ8x4fs,Refine(IVF4,Flat)", "IndexIVFFlat cannot score candidates again"),
]


@pytest.mark.parametrize("index_type, message", ENDS_THE_PROCESS)
def test_indexes_for_which_faiss_ends_the_process_are_refused(clustered, tmp_path, index_type, message):
    index = faiss.index_factory(16, index_type, faiss.METRIC_INNER_PRODUCT)
    index.train(clustered)
    index.add(clustered)
    faiss.write_index(index, str(tmp_path / "v.faiss"))
    with pytest.raises(PelError, match=rf"v\.faiss: faiss cannot read this file as vectors \(its {message}"):
        VectorIndex.open(tmp_path / "v.faiss")
    with pytest.raises(PelError, match=f"cannot be built for these vectors: its {message}"):
        VectorIndex.write(tmp_path / "w.faiss", [clustered], count=2000, dim=16, index_type=index_type)


def test_numbers_that_are_not_there_are_refused(clustered, tmp_path):
    index = faiss.index_factory(16, "IVF16,Flat", faiss.METRIC_INNER_PRODUCT)
    index.train(clustered)
    index.add_with_ids(clustered[:500], np.arange(500) + 10**6)
    faiss.write_index(index, str(tmp_path / "v.faiss"))
    made = VectorIndex.open(tmp_path / "v.faiss")
    with pytest.raises(PelError, match=r"v\.faiss: is damaged \(it finds vectors that are not there\)"):
        made.search(clustered[:3], 5)
    with pytest.raises(PelError, match=r"v\.faiss: is damaged"):
        made.vectors(np.array([7]))


def test_threads_that_ask_for_the_first_vectors_make_one_map_of_them(clustered, tmp_path, monkeypatch):
    VectorIndex.write(tmp_path / "v.faiss", [clustered], count=2000, dim=16, index_type="IVF16,Flat")
    made, make, wanted = [], faiss.IndexIVF.make_direct_map, VectorNumbers(np.arange(1900, 2000))

    def makes_slowly(cells):
        made.append(cells)
        sleep(0.1)
        make(cells)

    monkeypatch.setattr(faiss.IndexIVF, "make_direct_map", makes_slowly)
    index = VectorIndex.open(tmp_path / "v.faiss")
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(index.vectors, [wanted] * 4):
            np.testing.assert_array_equal(found, clustered[wanted])
    assert len(made) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are UTF-8")
def test_a_path_that_is_not_utf8(clustered, tmp_path):
    folder = tmp_path / "caf\udce9"
    folder.mkdir()
    for index_type in ("IVF16,SQ8", "flat"):
        path = folder / f"v{VectorIndex.suffix(index_type)}"
        VectorIndex.write(path, [clustered], count=2000, dim=16, index_type=index_type)
        assert len(VectorIndex.open(path)) == 2000
