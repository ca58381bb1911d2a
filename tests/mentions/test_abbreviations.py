"""Definitions such as "long form (LF)", found as Schwartz & Hearst 2003 say."""

from __future__ import annotations

import pytest
import spacy

from spacy_pel.mentions.abbreviations import defined, long_forms

NLP = spacy.blank("en")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("We saw tardive dyskinesia (TD) twice.", {"TD": "tardive dyskinesia"}),
        ("the action of 5-fluorouracil (5-FU) on", {"5-FU": "5-fluorouracil"}),
        ("N-terminal pro natriuretic peptide (NT-proNP)", {"NT-proNP": "N-terminal pro natriuretic peptide"}),
        ("given doxorubicin (DXR, 5 mg/kg) and", {"DXR": "doxorubicin"}),
        ("cyclophosphamide [CP] was", {"CP": "cyclophosphamide"}),
        ("the nurse was given dopamine (DA)", {"DA": "dopamine"}),
        ("low-molecular weight heparin (LMWH)", {"LMWH": "low-molecular weight heparin"}),
        ("on combined oral contraceptives (COCs)", {"COCs": "combined oral contraceptives"}),
        ("a triphenyl tetrazolium-chloride (TTC) test", {"TTC": "triphenyl tetrazolium-chloride"}),
        ("patients with quality of life (QL)", {"QL": "quality of life"}),
        ("of diethylnitrosamine (DEN: 10 mg)", {"DEN": "diethylnitrosamine"}),
        ("six rats of mean age (range: 3-8 weeks)", {}),
        ("she drank alcohol (As)", {}),
        ("of the manager (Ms)", {}),
        ("in A-B (A-B)", {}),
        ("heart failure (HF) and hemorrhagic fever (HF)", {"HF": "heart failure"}),
        ("renal failure (ARF)", {}),  # no word for its first letter
        ("we saw the liver (DA)", {}),
        ("the dose (5 mg)", {}),
        ("he was ill (n=5)", {}),
        ("(TD) at the start", {}),
        ("words that lead far away from tardive hypo dyskinesia (TD)", {"TD": "tardive hypo dyskinesia"}),
        ("tardive and seven words of no use before dyskinesia (TD)", {}),  # out of reach: 4 words
        ("TD the TD (TD)", {}),  # nothing is defined by itself
        ("on a new line.\nTardive dyskinesia (TD)", {"TD": "Tardive dyskinesia"}),
        ("a\xa0tardive\tdyskinesia (TD)", {"TD": "tardive\tdyskinesia"}),
        ("a bracket (that never closes", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_definitions(text, found):
    assert {short: long.text for short, long in defined(NLP(text)).items()} == found


def test_every_occurrence_has_the_long_form():
    doc = NLP("TD was mild. Tardive dyskinesia (TD) came back; TD, not TDX or an unTD, and td.")
    found = long_forms(doc)
    assert [doc[start:end].text for start, end in found] == ["TD"] * 3
    assert {long.text for long in found.values()} == {"Tardive dyskinesia"}


def test_the_last_word_of_a_sentence():
    doc = NLP("Immunoglobulin E (IgE) rose. She had high IgE. Then IgE, then IgE.")
    assert [doc[start:end].text for start, end in long_forms(doc)] == ["IgE", "IgE.", "IgE", "IgE."]


def test_plural_and_singular():
    doc = NLP("Oral contraceptives (OCs): one OC. A renal failure (RF), RFs. A level (LEV), LEVS.")
    found = {doc[start:end].text: long.text for (start, end), long in long_forms(doc).items()}
    oral, renal = dict.fromkeys(("OC", "OCs"), "Oral contraceptives"), dict.fromkeys(("RF", "RFs"), "renal failure")
    assert found == {**oral, **renal, "LEV": "level"}


def test_a_plural_of_its_own_is_no_other_number():
    doc = NLP("An oral contraceptive (OC) and ocular changes in sight (OCs): OC, OCs.")
    found = {doc[start:end].text: long.text for (start, end), long in long_forms(doc).items()}
    assert found == {"OC": "oral contraceptive", "OCs": "ocular changes in sight"}


def test_one_letter_is_no_singular():
    doc = NLP("Arsenic (As) is toxic. A patient had vitamin A. As shown, A was high.")
    assert {doc[start:end].text for start, end in long_forms(doc)} == {"As"}


def test_a_short_form_that_cuts_a_token_is_left_out():
    doc = spacy.tokens.Doc(NLP.vocab, words=["heart", "attack", "(", "HA", ")", "HA-free"])
    assert list(long_forms(doc)) == [(3, 4)]
