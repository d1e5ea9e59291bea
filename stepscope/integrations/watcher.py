"""What the callbacks and loggers that watch have in common: their arguments, and the training that these make."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, ClassVar

from tracker_adapters.config import SinksSpec
from tracker_adapters.emitter import Emitter

from debuggers.detectors.signals.front import Rule
from stepscope.integrations.frameworks import check_version
from stepscope.integrations.session_options import SessionOptions
from stepscope.integrations.watched_training import WatchedTraining
from stepscope.sessions.config import ConfigSpec
from stepscope.sessions.on_finding import OnFinding


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
        detectors: Sequence[Rule] = (),
        on_finding: OnFinding | None = None,
        **settings: Any,
    ) -> None:
        """Opens nothing yet.

        Args:
            run: The run's folder, or an open run, which its owner closes; by default ``STEPSCOPE_RUN``, else
                ``runs/<framework>``, such as ``runs/lightning``.
            sinks: Where a run that is opened here is shown; see ``open_run``.
            config: What is measured; see ``watch``.
            detectors: Further rules; each session gets copies of its own.
            on_finding: What to do when findings begin; see ``watch``. ``stop`` ends the training by the framework's
                means.
            settings: Fields of DebugConfig to change.

        Raises:
            ConfigError: For a wrong configuration or setting.
            SessionError: For a run of another type, and for wrong detectors or actions.
        """
        super().__init__()
        self.check_framework()
        options = SessionOptions.checked(config, settings, detectors, on_finding)
        self._training = WatchedTraining(self.framework, run, sinks=sinks, options=options)

    def check_framework(self) -> None:
        """Warns once of a version that was not tested."""
        check_version(self.package)
