"""The exceptions that callers of this package can meet."""

import errno

from tracker_adapters.redaction import redact
from tracker_adapters.terminal_text import printable

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The numbers of the OSErrors that a large artifact meets where a small one still fits."""


class StepscopeError(Exception):
    """Base class of all errors that stepscope raises; messages contain no secrets and no control characters."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(printable(redact(arg)) if isinstance(arg, str) else arg for arg in args))


class ArtifactError(StepscopeError, ValueError):
    """An argument of an artifact is wrong; the message names the artifact, the value and what was expected."""


class UnreadableFileError(ArtifactError):
    """A file cannot be read now, for a reason that lies with this machine and not with the caller."""


class SinkError(StepscopeError):
    """A sink could not take a batch now; delivery retries from the last token."""


class SinkUnavailable(SinkError):
    """The place where a sink writes has no room now: no artifact is at fault, and none is skipped."""


class StartOver(SinkError):
    """Raised by ``Sink.open`` and ``describe``: the output at this token is gone or cannot be trusted.

    Delivery opens the sink again with no token and writes everything from the first artifact.
    """


class SinkConfigError(StepscopeError, ValueError):
    """A sink was selected or configured wrongly: unknown name, unknown option, bad value."""


class MissingPackageError(StepscopeError, ImportError):
    """A package that a feature needs is not installed; the message names the extra to install."""


class RunError(StepscopeError):
    """Base of the errors about a run's folder."""


class RunExistsError(RunError, FileExistsError):
    """The folder already holds a run, and ``resume=True`` was not given."""


class RunBusyError(RunError):
    """Another live process writes to this run."""


class NotARunError(RunError):
    """The folder does not exist, belongs to something else, or has an unknown schema version."""


class UnsafeFileError(RunError, OSError):
    """A path in a run's folder leads out of it, or to anything but a regular file; nothing was opened."""


class DamagedError(RunError, ValueError):
    """Content of a run's store is damaged; the message names it."""


class DeliveryError(RunError):
    """With ``on_error="raise"``: something failed behind an emit (in the store or in a sink)."""
