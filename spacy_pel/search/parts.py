"""What a score may be made of, by the names that `Found.parts` has for it."""

from __future__ import annotations

SIMILARITY = "similarity"
"""Of the vectors: of entities, or where only those of names are searched, of these."""

NAMES = "names"
"""Of the vectors of names, where those of entities are searched too."""

NGRAM = "ngram"
"""Of the names, as 3-grams."""

EXACT = "exact"
"""1 for a name that equals the mention, or its singular, shared among the entities that have it."""

NAME = "name"
"""No part of the score: which name of the entity, its distinct ones counted from 0, had the best vector."""
