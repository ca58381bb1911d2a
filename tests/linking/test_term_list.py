"""Lists of terms: tables as data managers have them, plain lines, and what is wrong with some, named by line."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.linking.term_list import other_delimiter, read_terms, table_bytes


def read(data: bytes, format: str = "csv", column: str | None = None):
    return read_terms(io.BytesIO(data), Path("terms"), format, column)


def test_a_table_keeps_its_columns_and_rows():
    data = '\ufeffid, dx ,note\r\n1,"heart\n  attack, old",x\r\n2,,"a ""b"""\r\n\r\n3, fits ,'.encode()
    found = read(data, column="dx")
    assert found.columns == ["id", "dx", "note"] and found.terms == ["heart attack, old", "", "", "fits"]
    assert found.rows == [["1", "heart\n  attack, old", "x"], ["2", "", 'a "b"'], ["", "", ""], ["3", " fits ", ""]]
    again = read(table_bytes(found.columns, found.rows, "tsv"), "tsv", "dx")
    assert again == found and found.lines == [2, 4, 5, 6]


def test_the_only_column_and_plain_lines():
    assert read(b"dx\nfits\n\nMI\n").terms == ["fits", "", "MI"]
    found = read("\ufefffits, old\r\n\r\nMI".encode(), "txt")
    assert (found.columns, found.terms) == (["term"], ["fits, old", "", "MI"])


@pytest.mark.parametrize(
    ("data", "format", "column", "error"),
    [
        (b"", "csv", None, "terms: is empty"),
        (b"a\n\n", "csv", None, "terms: has no term"),
        (b"\n \n", "txt", None, "terms: has no term"),
        (b"a,b\n1,2\n", "csv", None, "terms:1: the columns are a, b; say which .* --column"),
        (
            b"diagnosis,b\n1,2\n",
            "csv",
            "diagnose",
            r'terms:1: no column "diagnose"; did you mean "diagnosis"\? The',
        ),
        (b"a,b\n1,2\n", "csv", "xyz", r'terms:1: no column "xyz"\. The columns are a, b'),
        (b"a,a\n1,2\n", "csv", "a", '2 columns are called "a"'),
        (b"a,b\n1,2\n1,2,3\n", "csv", "a", "terms:3: the row has 3 cells, the header 2"),
        (b"a,b\n1\n", "csv", "a", "terms:2: the row has 1 cells, the header 2"),
        (b'a,b\n1,"2\n', "csv", "a", "terms:2: .*quote the cell"),
        (b'a,b\n1,2\n3,"4\n5,6\n7,8\n', "csv", "a", "terms:5: .* in the row that begins in line 3; quote the cell"),
        (b"a,b\n1,\xff\n", "csv", "a", "terms:2: the row is not UTF-8"),
        (b"fits\n\xff\n", "txt", None, "terms:2: .*not UTF-8"),
        (b"fits\n", "txt", "dx", "--column dx: terms is read as plain terms"),
    ],
)
def test_what_is_wrong_is_named(data, format, column, error):
    with pytest.raises(PelError, match=error):
        read(data, format, column)


@pytest.mark.parametrize(
    ("columns", "format", "delimiter"),
    [
        (["id;dx"], "csv", ";"),
        (["id\tdx"], "csv", "\t"),
        (["id;dx"], "tsv", ";"),
        (["dx"], "csv", None),
        (["id;dx", "b"], "csv", None),
        (["id;dx"], "txt", None),
    ],
)
def test_a_header_that_is_of_another_delimiter(columns, format, delimiter):
    assert other_delimiter(columns, format) == delimiter
