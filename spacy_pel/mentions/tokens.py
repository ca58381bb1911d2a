"""Text → a Doc of tokens, whose cost grows with the length of the text and not with its square."""

from __future__ import annotations

import re
from itertools import chain, pairwise

from spacy.language import Language
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc
from spacy.util import get_words_and_spaces

from ..checks import shown
from ..errors import PelError

MARK, LETTER = r"(?:[^\w\s]|_)", r"[^\W_]"
FIRST_MARK = rf"(?={MARK})(?<!{MARK})(?<!{MARK}{LETTER})(?<!{MARK}{LETTER}{LETTER})"
# Stretches without a space, and the characters of them that are tokenised together. Marks with at most two letters
# between them are taken off one by one, with a look at all that is left each time; a URL is looked for in the whole.
# A stretch is tried from its beginning only.
STRETCHES = {
    re.compile(rf"{FIRST_MARK}(?:{MARK}{LETTER}{{0,2}}){{200,}}"): 200,
    re.compile(r"(?<!\S)\S{5000,}"): 5000,
}


def check_length(nlp: Language, text: str) -> None:
    """Raise `PelError` where `text` is longer than `nlp` takes."""
    if len(text) > nlp.max_length:
        raise PelError(f"the text has {len(text):,} characters, and the limit is {nlp.max_length:,}; part it")


def tokenised(nlp: Language, text: str) -> Doc:
    """Return `text` as the tokenizer of `nlp` parts it. Where spaCy's own meets hundreds of marks, or thousands of
    characters, without a space between them, it gets them piece by piece. Where another tokenizer loses white space,
    the Doc has its words with the white space of `text`, and nothing else that it says of them.

    Raises:
        PelError: The tokenizer makes other words of the text.
    """
    if not isinstance(nlp.tokenizer, Tokenizer):
        doc = nlp.tokenizer(text)
        return doc if doc.text == text else _with_white_space(doc, text)
    cuts = _cuts(text)
    if not cuts:
        return nlp.tokenizer(text)
    pieces = [nlp.tokenizer(text[start:end]) for start, end in pairwise([0, *cuts, len(text)])]
    tokens = list(chain.from_iterable(pieces))
    return Doc(nlp.vocab, [token.text for token in tokens], [bool(token.whitespace_) for token in tokens])


def _with_white_space(doc: Doc, text: str) -> Doc:
    try:
        words, spaces = get_words_and_spaces([token.text for token in doc], text)
    except ValueError as error:
        raise PelError(
            f"the tokenizer of the pipeline makes {shown(doc.text)} of {shown(text)}, so that offsets would be "
            "wrong; take one that changes no words"
        ) from error
    return Doc(doc.vocab, words, spaces)


def _cuts(text: str) -> list[int]:
    """Return where `text` is parted, ascending."""
    return sorted(
        {
            cut
            for pattern, size in STRETCHES.items()
            for stretch in pattern.finditer(text)
            for cut in range(stretch.start() + size, stretch.end(), size)
        }
    )
