"""How runs show themselves in notebooks: as a card, and as the viewer's page."""

from importlib import import_module
from pathlib import Path
from typing import Any

_SHOWN_BY = "stepscope.viewer.notebook"
"""The viewer reads records, so that it is known here by its name alone."""


class NotebookView:
    """What a run and a record of one have in common; ``path`` is the run's folder."""

    path: Path

    def view(self, height: int = 800) -> Any:
        """Returns the viewer's page for this run, which a notebook shows in a frame of so many pixels.

        A server of this process at 127.0.0.1 serves it until the process ends. Beside a training it takes processor
        time while the page is open: ``stepscope view`` takes it from another process.

        Raises:
            MissingPackageError: Without the packages of the extra ``viewer``.
            RunError: When the run cannot be read.
        """
        return import_module(_SHOWN_BY).embed(self.path, height)

    def _repr_html_(self) -> str | None:
        try:
            card: str | None = import_module(_SHOWN_BY).quiet_card(self.path)
        except ImportError:
            return None
        return card
