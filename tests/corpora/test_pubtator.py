"""PubTator → Docs: what is read, what is counted, what is refused."""

import gzip

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_pel.corpora.pubtator import PubTatorReader
from spacy_pel.errors import PelError
from spacy_pel.mentions.gold import GOLD_GROUP

NLP = spacy.blank("en")
TITLE = "Lithium-induced atrial flutter"
ABSTRACT = "Toxicity of lithium carbonate was fatal."


def mention(start, text, ids, label="Disease", pmid="101", end=None):
    return f"{pmid}\t{start}\t{start + len(text) if end is None else end}\t{text}\t{label}\t{ids}"


def document(*lines, pmid="101", title=TITLE, abstract=ABSTRACT):
    return "\n".join([f"{pmid}|t|{title}", f"{pmid}|a|{abstract}", *lines]) + "\n"


@pytest.fixture
def read(tmp_path):
    """Writes a PubTator file and reads it: Docs and counts."""

    def read_text(text, **options):
        path = tmp_path / "corpus.pubtator"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        reader = PubTatorReader(path, NLP, **options)
        return list(reader), reader.counts

    return read_text


def test_a_document_and_its_mentions(read):
    lines = [
        mention(0, "Lithium", "D008094", "Chemical"),
        mention(16, "atrial flutter", "D001282"),
        mention(31, "Toxicity", "D064420|D000069"),
        mention(43, "lithium carbonate", "-1", "Chemical"),
        mention(65, "fatal", ""),
    ]
    (doc,), counts = read(document(*lines))
    assert doc.text == f"{TITLE} {ABSTRACT}"
    assert doc.user_data["pmid"] == "101"
    assert [(span.text, span.label_, span.kb_id_) for span in doc.spans[GOLD_GROUP]] == [
        ("Lithium", "Chemical", "D008094"),
        ("atrial flutter", "Disease", "D001282"),
        ("Toxicity", "Disease", "D064420|D000069"),
        ("lithium carbonate", "Chemical", "NIL"),
        ("fatal", "Disease", ""),
    ]
    assert [(ent.text, ent.kb_id_) for ent in doc.ents] == [(span.text, span.kb_id_) for span in doc.spans[GOLD_GROUP]]
    assert (counts.documents, counts.mentions, counts.nil, counts.unannotated, counts.composite) == (1, 5, 1, 1, 1)
    assert counts.ids == {"D008094", "D001282", "D064420", "D000069"}
    assert not (counts.widened or counts.mismatched or counts.blank or counts.relations or counts.extra_columns)


def test_ids_and_pmid_survive_a_docbin_and_a_new_vocabulary(read):
    docs, _ = read(document(mention(0, "Lithium", "D1|D2")))
    stored = DocBin(store_user_data=True, docs=docs).to_bytes()
    (doc,) = DocBin().from_bytes(stored).get_docs(spacy.blank("en").vocab)
    assert [span.kb_id_ for span in doc.spans[GOLD_GROUP]] == ["D1|D2"]
    assert doc.user_data["pmid"] == "101"


def test_nested_and_equal_mentions_stay_in_the_group_and_the_longest_become_entities(read):
    lines = [mention(16, "atrial", "D1"), mention(16, "atrial flutter", "D2"), mention(16, "atrial flutter", "D3")]
    (doc,), counts = read(document(*lines))
    assert [span.kb_id_ for span in doc.spans[GOLD_GROUP]] == ["D1", "D2", "D3"]
    assert [(ent.text, ent.kb_id_) for ent in doc.ents] == [("atrial flutter", "D2")]
    assert counts.mentions == 3


def test_part_of_a_token_is_widened_and_counted(read):
    (doc,), counts = read(document(mention(1, "ithi", "D008094")))
    assert doc.spans[GOLD_GROUP][0].text == "Lithium"
    assert counts.widened == 1


def test_white_space_around_a_mention_is_no_part_of_it(read):
    (doc,), counts = read(document(mention(15, " atrial flutter ", "D001282")))
    assert doc.spans[GOLD_GROUP][0].text == "atrial flutter"
    assert counts.widened == 0


def test_mentions_at_the_very_start_and_end(read):
    (doc,), _ = read(document(mention(0, "Lithium", "D1"), mention(65, "fatal", "D2"), abstract=ABSTRACT[:-1]))
    first, last = doc.spans[GOLD_GROUP]
    assert (first.start, last.end) == (0, len(doc))


@pytest.mark.parametrize(
    "line",
    [
        mention(1, "Lithium", "D1"),
        mention(-3, "Lithium", "D1"),
        mention(9999, "Lithium", "D1"),
        mention(7, "Lithium", "D1", end=0),
    ],
)
def test_offsets_that_do_not_hold_the_text(read, line):
    text = document(line, mention(16, "atrial flutter", "D001282"))
    with pytest.warns(UserWarning, match=r"corpus\.pubtator: 1 mentions do not match .*: lines 3; they"):
        (doc,), counts = read(text)
    assert [span.text for span in doc.spans[GOLD_GROUP]] == ["atrial flutter"]
    assert counts.mismatched == [3]
    assert counts.mentions == 1
    with pytest.raises(PelError, match=r"corpus\.pubtator:3: offsets .* 'Lithium'.*--strict"):
        read(text, strict=True)


def test_a_mention_of_white_space_is_left_out_and_counted(read):
    (doc,), counts = read(document(mention(15, " ", "D1")))
    assert len(doc.spans[GOLD_GROUP]) == 0
    assert (counts.blank, counts.mentions) == (1, 0)


def test_relations_and_seventh_columns_are_left_out_and_counted(read):
    lines = [
        mention(0, "Lithium", "D008094") + "\tlithium",
        "101\tCID\tD008094\tD001282",
        "101\tAssociation\tD008094\tD001282\tNovel",
    ]
    (doc,), counts = read(document(*lines))
    assert doc.spans[GOLD_GROUP][0].kb_id_ == "D008094"
    assert (counts.extra_columns, counts.relations, counts.mentions) == (1, 2, 1)


def test_a_mention_line_for_the_second_time_is_left_out_and_counted(read):
    one, other = mention(0, "Lithium", "D008094"), mention(0, "Lithium", "D1")
    text = document(one, other, one) + document(one.replace("101", "102"), pmid="102")
    with pytest.warns(UserWarning, match=r"corpus\.pubtator: 1 mentions are those of .*: lines 5; they are left out"):
        docs, counts = read(text)
    assert [[span.kb_id_ for span in doc.spans[GOLD_GROUP]] for doc in docs] == [["D008094", "D1"], ["D008094"]]
    assert (counts.repeated, counts.mentions) == ([5], 3)
    with pytest.raises(PelError, match=r"corpus\.pubtator:5: the mention is that of line 3: remove one .*--strict"):
        read(text, strict=True)


def test_a_document_for_the_second_time_is_left_out_and_counted(read):
    line = mention(0, "Lithium", "D008094")
    text = document(line) + document(pmid="102") + document(line, mention(16, "atrial flutter", "D001282"))
    with pytest.warns(UserWarning, match=r"corpus\.pubtator: 1 documents have the id of an earlier one: lines 6; they"):
        docs, counts = read(text)
    assert [doc.user_data["pmid"] for doc in docs] == ["101", "102"]
    assert (counts.repeated_documents, counts.documents, counts.mentions) == ([6], 2, 1)
    with pytest.raises(PelError, match=r"corpus\.pubtator:6: the id '101' is that of the document in line 1: give"):
        read(text, strict=True)


@pytest.mark.parametrize(
    ("column", "kb_id"),
    [
        ("UMLS:C0023870", "C0023870"),
        ("UMLS:C1|UMLS:C2", "C1|C2"),
        ("C1|C1", "C1"),
        ("C1|-1", "C1"),
        ("-1", "NIL"),
        ("-1|-1", "NIL"),
        ("-", "NIL"),
        ("C1|-", "C1"),
        (" ", ""),
    ],
)
def test_id_column(read, column, kb_id):
    (doc,), _ = read(document(mention(0, "Lithium", column)), strip_prefix="UMLS:")
    assert doc.spans[GOLD_GROUP][0].kb_id_ == kb_id


def test_a_missing_id_column_and_an_empty_type(read):
    (doc,), counts = read(document("101\t0\t7\tLithium\tChemical", mention(16, "atrial flutter", "D1", label="")))
    assert [span.kb_id_ for span in doc.spans[GOLD_GROUP]] == ["", "D1"]
    assert [ent.text for ent in doc.ents] == ["Lithium", "atrial flutter"]
    assert counts.unannotated == 1


def test_documents_are_parted_by_blank_lines_or_by_a_title(read):
    parts = [document(pmid=pmid) for pmid in ("1", "2", "3")]
    docs, counts = read("\n\n" + parts[0] + " \n\n" + parts[1] + parts[2])
    assert [doc.user_data["pmid"] for doc in docs] == ["1", "2", "3"]
    assert counts.documents == 3


def test_a_title_alone_and_an_empty_document(read):
    docs, _ = read("1|t|Lithium\n1\t0\t7\tLithium\tChemical\tD1\n\n2|t|\n")
    assert [doc.text for doc in docs] == ["Lithium", ""]
    assert docs[0].ents[0].kb_id_ == "D1"


def test_gzipped(tmp_path):
    path = tmp_path / "corpus.pubtator.gz"
    path.write_bytes(gzip.compress(document().encode()))
    (doc,) = PubTatorReader(path, NLP)
    assert doc.text.startswith(TITLE)


def test_crlf_bom_control_characters_and_other_scripts(read):
    title = "锂中毒\x0b和\x85\u2028心房 扑动"
    line = mention(title.index("心"), "心房 扑动", "D001282")
    text = "\ufeff" + document(line, title=title).replace("\n", "\r\n")
    (doc,), counts = read(text)
    assert doc.text == f"{title} {ABSTRACT}"
    assert [span.text for span in doc.spans[GOLD_GROUP]] == ["心房 扑动"]
    assert not counts.mismatched


def test_a_huge_document(read):
    abstract = "Lithium was toxic . " * 60_000  # above the million characters at which spaCy's pipelines stop
    lines = [mention(len(TITLE) + 1 + 20 * i, "Lithium", "D008094") for i in (0, 59_999)]
    (doc,), counts = read(document(*lines, abstract=abstract))
    assert len(doc) > 200_000
    assert [span.text for span in doc.spans[GOLD_GROUP]] == ["Lithium", "Lithium"]
    assert counts.widened == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", r"corpus\.pubtator holds no document"),
        ("\n \n", r"corpus\.pubtator holds no document"),
        (mention(0, "Lithium", "D1"), r"corpus\.pubtator:1: no title line"),
        ("101|a|An abstract\n", r"corpus\.pubtator:1: no title line"),
        (document() + "\n" + mention(0, "Lithium", "D1"), r":4: no title line"),
        (document(mention(0, "Lithium", "D1", pmid="102")), r":3: a line of document '102' inside document '101'"),
        ("101|t|Lithium\n102|a|Toxicity\n", r":2: a line of document '102' inside document '101'"),
        (document("101\tzero\t7\tLithium\tChemical\tD1"), r":3: the offsets 'zero' and '7' must be integers"),
        (document("101\t0\t7.0\tLithium\tChemical"), r":3: the offsets '0' and '7\.0' must be integers"),
        (document("101\t0\t7\tLithium"), r":3: not a mention"),
        (document("101 0 7 Lithium Chemical D1"), r":3: a line of document '101 0 7"),
        (document().encode() + b"\n102|t|caf\xe9\n", r":4: not UTF-8"),
    ],
)
def test_what_is_not_pubtator_is_refused_with_file_and_line(read, text, error):
    with pytest.raises(PelError, match=error):
        read(text)
