"""Components whose settings are attributes of theirs too."""

from dataclasses import replace
from typing import Any


class WithSettings:
    """Gives a component the fields of its `settings`, a frozen dataclass, as attributes. One that is set is checked,
    and holds from then on.

    Attributes:
        setting_names: The fields.
        settings: The settings.
    """

    setting_names: tuple[str, ...] = ()
    settings: Any

    def __getattr__(self, name: str) -> Any:
        if name in self.setting_names:
            return getattr(self.settings, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.setting_names:
            name, value = "settings", replace(self.settings, **{name: value})
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.setting_names]
