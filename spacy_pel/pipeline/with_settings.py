"""Components whose settings are attributes of theirs too."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

from ..errors import PelError


@contextmanager
def errors_name(name: str, factory: str) -> Iterator[None]:
    """Errors of the block that name the section of a component with the name of its `factory` get that of the component
    `name`, which is built in the block.

    Raises:
        PelError: The block does.
    """
    try:
        yield
    except PelError as error:
        error.args = (re.sub(rf"\[components\.{factory}(?=[].])", lambda _: f"[components.{name}", str(error)),)
        raise


class WithSettings:
    """Gives a component the fields of its `settings`, a frozen dataclass, as attributes. One that is set is checked,
    and holds from then on.

    Attributes:
        setting_names: The fields.
        setting_of: Other names of fields.
        settings: The settings.
    """

    setting_names: ClassVar[tuple[str, ...]] = ()
    setting_of: ClassVar[Mapping[str, str]] = {}
    settings: Any

    def __getattr__(self, name: str) -> Any:
        field = self.setting_of.get(name, name)
        if field in self.setting_names:
            return getattr(self.settings, field)
        if hasattr(type(self), name):  # a property that has failed: with its own error
            return object.__getattribute__(self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        field = self.setting_of.get(name, name)
        if field in self.setting_names:
            name, value = "settings", replace(self.settings, **{field: value})
            self._check_change(field, value)
        super().__setattr__(name, value)

    def _check_change(self, field: str, settings: Any) -> None:
        """Check that `settings`, of which `field` is another than before, go with what the component has."""

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.setting_names, *self.setting_of]
