"""The events of a debug session: in the log with structured fields, and as alerts."""

import logging

from tracker_adapters.artifacts import AlertLevel
from tracker_adapters.emitter import Emitter

_SEVERITIES: dict[AlertLevel, int] = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_log = logging.getLogger(__name__)


class DebugLog:
    """Logs events, and emits each as an alert of the same name.

    A log record has the event's name, session and step under ``stepscope``, for handlers that want fields.
    """

    def __init__(self, session: str, emitter: Emitter | None, least: AlertLevel) -> None:
        """Makes a log.

        Args:
            session: The session's name.
            emitter: Takes the alerts.
            least: What is less severe is emitted, but not logged.
        """
        self._session = session
        self._emitter = emitter
        self._least = _SEVERITIES[least]
        self._notes: dict[str, str] = {}
        self._failures: list[str] = []
        self.step = 0

    @property
    def notes(self) -> list[str]:
        """What was noted."""
        return [*self._notes.values(), *self._failures]

    def event(self, name: str, message: str, level: AlertLevel) -> None:
        """Logs and emits an event of the current step."""
        if _SEVERITIES[level] >= self._least:
            self._write(_SEVERITIES[level], name, message)
        if self._emitter is not None:
            self._emitter.alert(name, message, step=self.step, level=level, told=_SEVERITIES[level] >= self._least)

    def note(self, name: str, message: str) -> None:
        """Tells a warning of this name once in the session, and keeps it for the summary."""
        if name not in self._notes:
            self._notes[name] = message
            self.event(name, message, "warning")

    def failure(self, message: str) -> None:
        """Takes a tool's failure that is in the log already."""
        self._failures.append(message)
        if self._emitter is not None:
            self._emitter.alert("debug_tool_failed", message, step=self.step, level="error", told=True)

    def verbose(self, message: str) -> None:
        """Logs a line about a step, whatever the least severity, and emits nothing."""
        self._write(logging.INFO, "debug_step", message)

    def _write(self, severity: int, name: str, message: str) -> None:
        fields = {"event": name, "session": self._session, "step": self.step}
        _log.log(severity, "%s: %s", name, message, extra={"stepscope": fields})
