"""Entity records from CSV and TSV."""

import csv

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.kb.readers.csv import read_csv

TABLE = (
    "\ufeffID,name,aliases,types,definition,score\n"
    'D1,"Fever, acute",pyrexia| febrile state |,Disease,"A ""hot"" body.",3\n'
    "\n"
    "D2,Aspirin,,Chemical|Drug,,\n"
)


def test_columns_by_name(tmp_path):
    path = tmp_path / "kb.csv"
    path.write_text(TABLE, "utf-8")
    expected = [
        Entity("D1", "Fever, acute", ("pyrexia", "febrile state"), ("Disease",), 'A "hot" body.'),
        Entity("D2", "Aspirin", (), ("Chemical", "Drug")),
    ]
    assert list(read_csv(path)) == expected


def test_tabs_in_a_tsv_and_long_fields(tmp_path):
    path = tmp_path / "kb.tsv"
    aliases = "|".join(f"name {i}" for i in range(20_000))
    path.write_text(f"name\tid\taliases\nFever\tD1\t{aliases}\n")
    (entity,) = read_csv(path)
    assert (entity.id, entity.name, len(entity.aliases)) == ("D1", "Fever", 20_000)


def test_a_quote_in_a_tsv_that_takes_rows_is_a_fault_of_all_of_them(tmp_path):
    path = tmp_path / "kb.tsv"
    rows = [f"D{i}\tname {i}" for i in range(500)]
    path.write_text(
        "\n".join(["id\tname", *rows, 'E1\t"in vitro', "E2\tb", 'E3\tfertilisation"', 'F\t"two\nlines"']) + "\n"
    )
    records = read_csv(path)
    with pytest.warns(UserWarning, match=r"kb\.tsv:502: a field that begins with a quote goes on to line 504"):
        found = list(records)
    assert [one.id for one in found[500:]] == ["F"] and found[-1].name == "two\nlines"
    with (tmp_path / "written.tsv").open("w", newline="") as file:
        defined = [("D1", "a", "First line.\n\tIndented.\nLast."), ("D2", "b", "x\ty\nz"), ("D3", "c", "q\n\t\tr\n\ts")]
        csv.writer(file, delimiter="\t").writerows([("id", "name", "definition"), *defined])
    assert [(one.id, one.name, one.definition) for one in read_csv(tmp_path / "written.tsv", strict=True)] == defined
    with pytest.raises(PelError, match="goes on to line 504"):
        list(read_csv(path, strict=True))


def test_a_row_of_blanks_is_empty(tmp_path):
    path = tmp_path / "kb.csv"
    path.write_bytes(b"id,name\r\nD1,x\r\n   \r\n , \r\nD2,y\r\n")
    assert [entity.id for entity in read_csv(path, strict=True)] == ["D1", "D2"]


def test_columns_of_other_names(tmp_path):
    path = tmp_path / "kb.csv"
    path.write_text("CUI,Preferred Label,name,SYN,TUI,STY\nC1,Fever,unused,pyrexia|heat,T184,Sign or Symptom\n")
    columns = ["id=cui", "name=Preferred Label", "aliases=SYN", "types=TUI", "type_names=STY"]
    records = read_csv(path, columns=columns)
    (entity,) = records
    assert entity == Entity("C1", "Fever", ("pyrexia", "heat"), ("T184",), type_names=("Sign or Symptom",))
    assert records.skipped == {'column "name", for which another stands': 1}
    with pytest.raises(PelError, match=r'kb\.csv:1: no column "label" among \[\'CUI\', .*--columns says'):
        list(read_csv(path, columns=["id=CUI", "name=Label"]))
    with pytest.raises(PelError, match='--columns: "title=Label" is not FIELD=COLUMN; FIELD is id, name, aliases'):
        list(read_csv(path, columns=["title=Label"]))
    with pytest.raises(PelError, match='--columns: "LABEL" stands for name and for aliases; name it once'):
        list(read_csv(path, columns=["name=Label", "aliases=LABEL"]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"kb\.csv:1: no column \"id\""),
        ("id,title\nD1,x\n", r"kb\.csv:1: no column \"name\" among \['id', 'title'\]"),
        ("id,Name,aliases,name \nD1,x,,y\n", r'kb\.csv:1: 2 columns are the "name"; rename or remove one'),
        ("id;name;aliases\n", r"kb\.csv:1: no column .* Are columns parted by ';'\? Write commas"),
        ("id,name\n", r"kb\.csv: holds no entities"),
        ("id,name\nD1,\n", r'kb\.csv:2: "name" is empty'),
        ("id,name\nD1,a,b\n", r"kb\.csv:2: the row has 3 columns, the header 2"),
        ("id,name\nD1,a\nD2,b\nD1,c\n", r'kb\.csv:4: the id "D1" is that of line 2'),
        ('id,name\nD1,"a\n', r"kb\.csv:2: unexpected end of data"),
        ("id,name\nD1,a\0b\n", r"kb\.csv:2: .*NUL"),
        ("id,name\nNIL,a\n", r'kb\.csv:2: the id "NIL" means something else'),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, text, message):
    path = tmp_path / "kb.csv"
    path.write_text(text)
    with pytest.raises(PelError, match=message):
        list(read_csv(path))


def test_not_utf8(tmp_path):
    path = tmp_path / "kb.csv"
    path.write_bytes("id,name\nD1,Fièvre\n".encode("latin-1"))
    with pytest.raises(PelError, match="not UTF-8"):
        list(read_csv(path))
    path.write_text("id,name\nD1,a\n", "utf-16")
    with pytest.raises(PelError, match=r"kb\.csv:1: the row is not UTF-8"):
        list(read_csv(path))
