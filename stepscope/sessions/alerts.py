"""The alerts of a session itself: what failed inside it."""

from tracker_adapters.emitter import Emitter


class SessionAlerts:
    """Emits them; without an emitter it emits nothing."""

    def __init__(self, emitter: Emitter | None) -> None:
        self._emitter = emitter

    def failure(self, message: str, step: int) -> None:
        """Says that something inside the session failed."""
        if self._emitter is not None:
            self._emitter.alert("session_failure", message, step=max(0, step), told=True)
