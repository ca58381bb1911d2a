"""The clauses of a file in the OBO format, one a line, as far as entities need them.

The grammar is that of OBO 1.4, https://owlcollab.github.io/oboformat/doc/GO.format.obo-1_4.html. Where a real ontology
breaks it, the text at the beginning of a clause is mostly well, so that it is read even if what follows is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ...errors import PelError

SCOPES = ("EXACT", "NARROW", "BROAD", "RELATED")
STANZA = "["
ESCAPES = {"n": "\n", "t": "\t", "W": " "}  # a "\\" before any other character stands for that character
LONGEST_CLAUSE = 1 << 20  # characters

# Each part ends where the next can begin, so that every line takes linear time.
QUOTED = r'"[^"\\]*(?:\\.[^"\\]*)*"'
ID = r"(?!https?://\S*\\)(?:[^\s\\{]|\\.)[^\s\\{]*(?:\\.[^\s\\{]*)*"  # a URL that stands alone has no escapes
XREF = rf'(?:[^\s\\,\]{{"]|\\.)[^\s\\,\]{{"]*(?:\\.[^\s\\,\]{{"]*)*(?:\s+{QUOTED})?'
XREFS = rf"\[\s*(?:{XREF}(?:\s*,\s*{XREF})*\s*)?\]"
QUALIFIERS = rf'\{{[^"{{}}]*(?:{QUOTED}[^"{{}}]*)*\}}'
END = rf"\s*(?:{QUALIFIERS}\s*)?(?:!.*)?"

quoted = re.compile(QUOTED)
unquoted = re.compile(rf"([^\\!{{]*(?:\\.[^\\!{{]*)*)(?:{QUALIFIERS}\s*)?(?:!.*)?")
one_id = re.compile(rf"({ID}){END}")
one_xref = re.compile(rf"({ID})(?:\s+{QUOTED})?{END}")
boolean = re.compile(rf"(true|false){END}")
stanza = re.compile(rf"\[(\w+)\]{END}")
after_definition = re.compile(rf"\s*{XREFS}{END}")
after_synonym = re.compile(rf"\s*({'|'.join(SCOPES)})(?:\s+[^\s\[]+)?\s*{XREFS}{END}")
escape = re.compile(r"\\(.)", re.DOTALL)


class Synonym(NamedTuple):
    """Another name.

    Attributes:
        name: It.
        scope: One of `SCOPES`.
    """

    name: str
    scope: str


Value = str | bool | Synonym | None


class Clause(NamedTuple):
    """A line that was read.

    Attributes:
        tag: What stands before the colon; `STANZA` in a line like "[Term]".
        value: What it says; None where that is not known or of no use here.
        fault: What is wrong with the rest of it, or "".
    """

    tag: str
    value: Value
    fault: str = ""


def clause(line: str) -> Clause | None:
    """The clause on `line`, which has no whitespace around it; None for a blank line or a comment.

    Raises:
        PelError: Nothing of the line can be read.
    """
    if not line or line[0] == "!":
        return None
    if len(line) > LONGEST_CLAUSE or "\0" in line:
        raise PelError("the line has a NUL character or more than a million characters; mend or remove it")
    if line[0] == STANZA:
        found = stanza.match(line)
        return Clause(STANZA, found[1] if found else "", "" if found else _fault("[Term]"))
    tag, colon, value = line.partition(":")
    if not colon or " " in tag:
        raise PelError(_fault("tag: value"))
    if tag not in READERS:
        return Clause(tag, None)
    read, form = READERS[tag]
    text, is_whole = read(value.strip())
    if text is None:
        raise PelError(_fault(f"{tag}: {form}"))
    return Clause(tag, text, "" if is_whole else _fault(f"{tag}: {form}"))


def _fault(form: str) -> str:
    return f"is not OBO (expected `{form}`); mend the line"


def _unquoted(value: str) -> tuple[Value, bool]:
    found = unquoted.fullmatch(value)
    return _unescaped(found[1] if found else value).strip() or None, found is not None


def _id(value: str) -> tuple[Value, bool]:
    found = one_id.fullmatch(value)
    return found and _unescaped(found[1]), True


def _xref(value: str) -> tuple[Value, bool]:
    found = one_xref.fullmatch(value)
    return found and _unescaped(found[1]), True


def _boolean(value: str) -> tuple[Value, bool]:
    found = boolean.fullmatch(value)
    return found and found[1] == "true", True


def _definition(value: str) -> tuple[Value, bool]:
    found = quoted.match(value)
    if not found:
        return None, False
    return _unescaped(found[0][1:-1]).strip(), after_definition.fullmatch(value, found.end()) is not None


def _synonym(value: str) -> tuple[Value, bool]:
    found = quoted.match(value)
    if not found:
        return None, False
    rest = after_synonym.fullmatch(value, found.end())
    scope = next((word for word in value[found.end() :].split(None, 1)[:1] if word in SCOPES), "RELATED")
    return Synonym(_unescaped(found[0][1:-1]).strip(), scope), rest is not None


def _unescaped(text: str) -> str:
    return escape.sub(lambda found: ESCAPES.get(found[1], found[1]), text) if "\\" in text else text


# How the value of a tag is read, and what it should be like.
READERS: dict[str, tuple[Callable[[str], tuple[Value, bool]], str]] = {
    "id": (_id, "ID"),
    "name": (_unquoted, "text"),
    "namespace": (_id, "ID"),
    "default-namespace": (_id, "ID"),
    "alt_id": (_id, "ID"),
    "replaced_by": (_id, "ID"),
    "is_obsolete": (_boolean, "true"),
    "xref": (_xref, 'ID "text"'),
    "def": (_definition, '"text" [ID, ID]'),
    "synonym": (_synonym, '"text" SCOPE [ID, ID]'),
}
