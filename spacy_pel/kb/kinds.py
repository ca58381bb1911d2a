"""What the vectors of an index are of."""

from __future__ import annotations

ENTITY = "entity"
"""One vector an entity, of its text: name, types, definition or aliases, as the entity tower reads them."""

NAMES = "names"
"""One vector for each distinct name of all entities, as the mention tower reads a mention that stands alone."""

VECTORS = {"entity": (ENTITY,), "names": (NAMES,), "both": (ENTITY, NAMES)}
"""From the setting `vectors` of a linker to the kinds of the indexes that it searches."""
