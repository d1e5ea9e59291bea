"""Names the project in lines of its loggers that go to standard error because nobody set up logging."""

from __future__ import annotations

import copy
import logging


class UnheardRecords(logging.Handler):
    """Prints what Python's handler of last resort would, ``logging.lastResort``, with ``stepscope:`` before it.

    Where any other handler hears the logger, or the last resort was switched off, it does nothing.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Called by logging for each record of the logger."""
        last_resort = logging.lastResort
        if last_resort is None or record.levelno < last_resort.level or self._is_heard(record.name):
            return
        try:
            named = copy.copy(record)
            named.msg, named.args = f"stepscope: {record.getMessage().removeprefix('stepscope ')}", None
            last_resort.handle(named)
        except Exception:
            self.handleError(record)

    def _is_heard(self, name: str) -> bool:
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(not isinstance(handler, UnheardRecords) for handler in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


def name_unheard_records(package: str) -> None:
    """Has lines of a package's loggers named; calling it again does nothing."""
    logger = logging.getLogger(package)
    if not any(isinstance(handler, UnheardRecords) for handler in logger.handlers):
        logger.addHandler(UnheardRecords())
