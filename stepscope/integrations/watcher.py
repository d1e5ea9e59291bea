"""What the callbacks and loggers that watch have in common: their arguments, and the training that these make."""

from __future__ import annotations

from os import PathLike
from typing import Any, ClassVar

from tracker_adapters.config import SinksSpec
from tracker_adapters.emitter import Emitter

from stepscope.integrations.frameworks import check_version
from stepscope.integrations.watched_training import WatchedTraining
from stepscope.sessions.config import ConfigSpec


class Watcher:
    """The constructor of a callback or logger; stands before the framework's class among the bases."""

    framework: str
    """Names the default folder, ``runs/<framework>``, and messages."""
    package: ClassVar[str]
    """The name under which the framework is installed."""

    def __init__(
        self,
        run: str | PathLike[str] | Emitter | None = None,
        *,
        sinks: SinksSpec = ("local",),
        config: ConfigSpec | None = None,
        **settings: Any,
    ) -> None:
        """Opens nothing yet.

        Args:
            run: The run's folder, or an open run, which its owner closes; by default ``STEPSCOPE_RUN``, else
                ``runs/<framework>``, such as ``runs/lightning``.
            sinks: Where a run that is opened here is shown; see ``open_run``.
            config: What is measured; see ``watch``.
            settings: Fields of DebugConfig to change.

        Raises:
            ConfigError: For a wrong configuration.
            SessionError: For a run of another type.
        """
        super().__init__()
        self.check_framework()
        self._training = WatchedTraining(self.framework, run, sinks=sinks, config=config, settings=settings)

    def check_framework(self) -> None:
        """Warns once of a version that was not tested."""
        check_version(self.package)
