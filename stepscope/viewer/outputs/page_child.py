"""The process that opens pages: it has limits, so that a page that takes memory or time ends it and nothing else.

It reads requests from its standard input, one JSON object a line, and writes for each the length of the answer, as
four bytes of big-endian, a byte that is 0 for an answer and 1 for the text of an error, and the answer. It ends with
its input.
"""

import json
import os
import resource
import signal
import struct
import sys
from typing import BinaryIO

from debuggers.errors import PageError
from stepscope.viewer.outputs.nodes import PlaceError
from stepscope.viewer.outputs.page_requests import OpenPages, answer

_PROCESSOR_SECONDS = 120


def main() -> None:
    """Serves requests until the input ends. The arguments: how many bytes of memory it may take."""
    _set_limits(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints is no answer
    pages = OpenPages()
    for line in sys.stdin.buffer:
        _allow_time()
        try:
            _send(answers, 0, answer(json.loads(line), pages))
        except (PageError, PlaceError) as error:
            if isinstance(error.__cause__, MemoryError):
                _end()
            _send(answers, 1, str(error).encode(errors="replace"))
        except MemoryError:
            _end()
        except Exception as error:  # whatever a hostile page makes of our own code is an error of that page
            _send(answers, 1, f"the page cannot be shown: {type(error).__name__}: {error}".encode(errors="replace"))


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)  # what is left of the memory may not suffice for more


def _set_limits(nbytes: int) -> None:
    # Mapped files do not count as data: the process may map a page larger than this.
    for limit, value in ((resource.RLIMIT_DATA, nbytes), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(limit)
        resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _allow_time() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used.ru_utime + used.ru_stime) + _PROCESSOR_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _send(answers: BinaryIO, status: int, content: bytes) -> None:
    answers.write(struct.pack(">IB", len(content), status))
    answers.write(content)
    answers.flush()


if __name__ == "__main__":
    main()
