"""What is said where a file of a KB holds something that was never written to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import PelError
from ..visible import visible


class UnknownId(PelError, KeyError):
    """A KB has no entity of this id. A `KeyError`, as of any mapping, that says so in a sentence."""

    def __init__(self, path: Path, id: object) -> None:
        """Name the KB at `path` and the id."""
        super().__init__(
            f'{path}: no entity has the id "{id}"; look for it by name with `python -m spacy pel kb search`.'
        )
        self._named = path, id

    def __reduce__(self) -> tuple:
        return type(self), self._named

    def __str__(self) -> str:
        return visible(str(self.args[0]))


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn what fails in the block, since the file at `path` makes no sense, into an error that says how to find out.

    Args:
        path: A file of a KB.

    Raises:
        PelError: In the place of the errors of Python and numpy.
    """
    try:
        yield
    except PelError:
        raise
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise PelError(damage(path, error)) from error


def damage(path: Path, what: object) -> str:
    """The sentence for a file whose content makes no sense."""
    said = " ".join(str(what).split())[:200]
    return f"{path}: its content is damaged ({said}); run `python -m spacy pel kb verify {path.parent}`."
