"""How components get to know those behind them, and these a linker: the hook that spaCy has for those that listen."""

from collections.abc import Iterator
from typing import Any

from ..errors import PelError


class ListenedTo:
    """What spaCy wants of a component that it is to show those behind (`spacy.ty.ListenedToComponent`). It calls
    `find_listeners` with each of them, whenever the pipeline has changed.

    Attributes:
        listener_map: Those behind that matter, by name.
    """

    listeners: tuple = ()
    listening_components: tuple = ()  # whose model has a layer that listens: none
    listener_map: dict[str, Any] = {}  # spaCy sets another on each component  # noqa: RUF012

    def add_listener(self, listener: Any, component_name: str) -> None:
        """Do nothing: no layer listens."""

    def remove_listener(self, listener: Any, component_name: str) -> bool:
        """Say that no layer listens."""
        return False


class Upstream(ListenedTo):
    """A component that makes itself known to those behind that listen to it.

    Attributes:
        listener_map: Those that listen, by name.
        session: The training that is going on, or None.
        outdated: Whether the KB has no vectors of the weights as they are: a training has changed them.
    """

    name: str
    session: Any

    def find_listeners(self, component: Any) -> None:
        """Make oneself known to `component`, if it wants that."""
        if hasattr(component, "listen_to"):
            self.listener_map = {**self.listener_map, component.name: component}
            component.listen_to(self)

    def candidates_wanted(self, least: int) -> int:
        """How many candidates of a mention those behind want to find, and at least `least`."""
        return max(least, *(component.settings.top_n for component in self._behind()), 0)

    def trains_behind(self) -> bool:
        """Whether one of those behind is being trained."""
        return any(component.session is not None for component in self._behind())

    @property
    def outdated(self) -> bool:
        """See `PelLinker.outdated`."""
        raise NotImplementedError

    def check_teaches(self, name: str) -> None:
        """Check that the component `name` behind this one can learn from what it finds. If not, gradients that an
        update of both has given this one are dropped: where it has no new weights yet, it stays as it was.

        Raises:
            PelError: This one is being trained.
        """
        if self.session is None or (self.session.latest_batch is None and not self.outdated):
            return
        self.session.drop_gradients()
        changed = ""
        if self.outdated:
            changed = f" {self.name} has new weights now, and links nothing until it is indexed or loaded again."
        else:
            self.session = None
        raise PelError(
            f"{self.name} is being trained together with {name}, which learns from what it finds: name it in "
            f"[training] frozen_components and annotating_components, or train and index it before.{changed}"
        )

    def _behind(self) -> Iterator[Any]:
        """Those that listen to this one, and not to another that stands between."""
        return (component for component in self.listener_map.values() if component.linker is self)
