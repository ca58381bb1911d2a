"""The clauses of a file in the OBO format, one a line, as far as entities need them.

The grammar is that of OBO 1.4, https://owlcollab.github.io/oboformat/doc/GO.format.obo-1_4.html. Real ontologies
break it mostly behind the text of a definition or synonym: the text is read all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ...errors import PelError
from .faults import Partly

SCOPES = ("EXACT", "NARROW", "BROAD", "RELATED")
STANZA = "[]"  # the tag of a line like "[Term]"
ADJECTIVE = "has_relational_adjective"  # the tag of a `property_value` of that name: "cardiac" of the heart
ESCAPES = {"n": "\n", "t": "\t", "W": " "}  # a "\" before any other character stands for that character
LONGEST_CLAUSE = 1 << 20  # characters

# Each part ends where the next can begin, so that every line takes linear time.
CHARACTERS = r'[^"\\]*(?:\\.[^"\\]*)*'
TEXT, QUOTED = rf'"({CHARACTERS})"', rf'"{CHARACTERS}"'
ID = r"(?!https?://\S*\\)(?:[^\s\\{]|\\.)[^\s\\{]*(?:\\.[^\s\\{]*)*"  # a URL that stands alone has no escapes
XREF = rf'(?:[^\s\\,\]{{"]|\\.)[^\s\\,\]{{"]*(?:\\.[^\s\\,\]{{"]*)*(?:\s+{QUOTED})?'
XREFS = rf"\[\s*(?:{XREF}(?:\s*,\s*{XREF})*\s*)?\]"
QUALIFIERS = rf'\{{[^"{{}}]*(?:{QUOTED}[^"{{}}]*)*\}}'
KEYED = r'(?=\{\s*(?:[^\s="{}]+\s*=|\}))'  # tells qualifiers from the braces of a name: "poly{1-hexane}"
END = rf"\s*(?:{QUALIFIERS}\s*)?(?:!.*)?"

text = re.compile(TEXT)
definition = re.compile(rf"{TEXT}\s*{XREFS}{END}")
synonym = re.compile(rf"{TEXT}\s*({'|'.join(SCOPES)})(?:\s+[^\s\[]+)?\s*{XREFS}{END}")
unquoted = re.compile(rf"([^\\!{{]*(?:\\.[^\\!{{]*)*)(?:{KEYED}{QUALIFIERS}\s*)?(?:!.*)?")
adjective = re.compile(rf"(?:{ADJECTIVE}|UBPROP:0000007)\s+{TEXT}")
one_id = re.compile(rf"({ID}){END}")
one_xref = re.compile(rf"({ID})(?:\s+{QUOTED})?{END}")
boolean = re.compile(rf"(true|false){END}")
stanza = re.compile(rf"\[(\w+)\]{END}")
escape = re.compile(r"\\(.)")

Value = str | bool | tuple[str, str]
Clause = tuple[int, str, Value]  # its line, tag and value; that of a `synonym` is a name and its scope
Read = tuple[Value | None, bool]  # what could be read, and whether that is all of it


def clause(number: int, line: str) -> Clause | None:
    """The clause on a line, which has no whitespace around it; None where it has nothing of use.

    Raises:
        PelError: It cannot be read, or, a `Partly`, not to its end.
    """
    tag, colon, value = line.partition(":")
    if tag in READERS:
        read, form = READERS[tag]
        if len(value) > LONGEST_CLAUSE or "\0" in value:
            raise PelError(f"the line has a NUL character, or over {LONGEST_CLAUSE:,} characters; mend or remove it")
        found, is_whole = read(value.strip())
        if found is None:
            raise _broken(f"{tag}: {form}")
        if not is_whole:
            raise _broken(f"{tag}: {form}", (number, tag, found))
        return number, tag, found
    if tag == "property_value":
        own = adjective.match(value.strip()[:LONGEST_CLAUSE])
        return (number, ADJECTIVE, _unescaped(own[1]).strip()) if own else None
    if line.startswith("["):
        name = stanza.fullmatch(line)
        if not name:
            raise _broken("[Term]", (number, STANZA, ""))
        return number, STANZA, name[1]
    if line and line[0] != "!" and (not colon or " " in tag):
        raise _broken("tag: value")
    return None


def _broken(form: str, part: Clause | None = None) -> Partly:
    return Partly(f"is not OBO (expected `{form}`); mend the line", part)


def _id(value: str) -> Read:
    found = one_id.fullmatch(value)
    return (_unescaped(found[1]) if found else None), True


def _xref(value: str) -> Read:
    found = one_xref.fullmatch(value)
    return (_unescaped(found[1]) if found else None), True


def _boolean(value: str) -> Read:
    found = boolean.fullmatch(value)
    return (found[1] == "true" if found else None), True


def _unquoted(value: str) -> Read:
    found = unquoted.fullmatch(value)
    return _unescaped(found[1] if found else value).strip() or None, found is not None


def _definition(value: str) -> Read:
    whole = definition.fullmatch(value)
    found = whole or text.match(value)
    return (_unescaped(found[1]).strip() if found else None), whole is not None


def _synonym(value: str) -> Read:
    if found := synonym.fullmatch(value):
        return (_unescaped(found[1]).strip(), found[2]), True
    if not (found := text.match(value)):
        return None, False
    words = value[found.end() :].split(None, 1)
    scope = words[0] if words and words[0] in SCOPES else "RELATED"  # what OBO 1.2 says of a synonym without one
    return (_unescaped(found[1]).strip(), scope), False


def _unescaped(value: str) -> str:
    return escape.sub(lambda found: ESCAPES.get(found[1], found[1]), value) if "\\" in value else value


# How the value of a tag is read, and what the clause should look like.
READERS: dict[str, tuple[Callable[[str], Read], str]] = {
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
