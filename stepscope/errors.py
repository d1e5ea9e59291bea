"""The exceptions that a caller of sessions can meet."""

from tracker_adapters.errors import StepscopeError


class ConfigError(StepscopeError, ValueError):
    """A value of a DebugConfig or a Schedule is wrong; the message names it and says what was expected."""


class SessionError(StepscopeError, ValueError):
    """A session was created or called with a wrong argument, or at the wrong time."""
