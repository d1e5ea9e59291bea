"""A log handler of last resort: prints warnings with the project's name if logging is not configured."""

import copy
import logging

from tracker_adapters.terminal_text import printable

_FORMATTER = logging.Formatter()


class LastResortHandler(logging.Handler):
    """Prints what Python's ``logging.lastResort`` would, with the prefix ``stepscope:``, and ``printable``.

    It does nothing if the logger has another handler, or if ``logging.lastResort`` is disabled.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Called by logging for each record of the logger."""
        last_resort = logging.lastResort
        if last_resort is None or record.levelno < last_resort.level or self._has_other_handler(record.name):
            return
        try:
            named = copy.copy(record)
            message = record.getMessage().removeprefix("stepscope ")
            named.msg, named.args = f"stepscope: {printable(message)}", None
            if record.exc_info:
                named.exc_text = printable(_FORMATTER.formatException(record.exc_info))
            last_resort.handle(named)
        except Exception:
            self.handleError(record)

    def _has_other_handler(self, name: str) -> bool:
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(not isinstance(handler, LastResortHandler) for handler in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


def add_last_resort(package: str) -> None:
    """Adds the handler to a package's logger, once."""
    logger = logging.getLogger(package)
    if not any(isinstance(handler, LastResortHandler) for handler in logger.handlers):
        logger.addHandler(LastResortHandler())
