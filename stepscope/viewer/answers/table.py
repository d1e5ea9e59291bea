"""The answers by their paths, and how an address is answered."""

import logging
import sqlite3
from collections.abc import Callable
from importlib import import_module

from tracker_adapters.errors import ArtifactError, StepscopeError

from stepscope.viewer.answers.answer import Answer, AnswerError, Gone, NotFound
from stepscope.viewer.answers.query import Query
from stepscope.viewer.watched_runs import RunList, UnknownRunError

logger = logging.getLogger(__name__)

_MODULES = {
    "alerts": ("alerts",),
    "compare": ("causes", "compare"),
    "datapoints": ("changes", "datapoint", "datapoints", "judged", "picture"),
    "histograms": ("histograms",),
    "images": ("image", "images"),
    "layers": ("layers",),
    "names": ("names",),
    "parting": ("parting",),
    "run_details": ("run",),
    "runs": ("positions", "runs"),
    "series": ("csv", "series"),
    "texts": ("curves", "file", "files", "tables", "texts"),
    "verdict": ("verdict",),
}
"""The paths that each module of this folder answers, by a function ``<path>_answer``."""


def _answered_by(module: str, path: str) -> Callable[[RunList, Query], Answer]:
    """Imports the module when it is asked: a chart need not wait for what diagnoses a run or reads its pages."""

    def function(runs: RunList, query: Query) -> Answer:
        found: Answer = getattr(import_module(f"stepscope.viewer.answers.{module}"), f"{path}_answer")(runs, query)
        return found

    return function


ANSWERS = {path: _answered_by(module, path) for module, paths in _MODULES.items() for path in paths}

_FIRST = ("runs", "names", "alerts", "series")
ALWAYS_ANEW = frozenset({"csv", "datapoints", "positions", "run", "runs"})
"""Paths whose answers change while the positions of the runs that they name stay, or are made while they are sent:
these are never kept."""


def import_first(is_asked: Callable[[], bool]) -> None:
    """Imports what the page asks for first, in that order, while the browser starts.

    Whoever asks for charts by then waits for no import of what makes the verdict.
    """
    for module in _FIRST:
        import_module(f"stepscope.viewer.answers.{module}")
    if not is_asked():
        import_module("stepscope.viewer.answers.verdict")


def import_answers() -> None:
    """Imports the modules of all answers, for whoever has nothing else to do."""
    for module in _MODULES:
        import_module(f"stepscope.viewer.answers.{module}")


def answer(runs: RunList, address: str) -> Answer:
    """Returns what an address answers.

    Args:
        runs: The runs that are looked at.
        address: The path and the parameters, such as ``series?run=3f2a&name=loss``.

    Raises:
        AnswerError: When there is no answer, also where a run is damaged, or was deleted; nothing else is raised.
    """
    path, query = Query.of(address)
    return answer_to(runs, path, query)


def answer_to(runs: RunList, path: str, query: Query) -> Answer:
    """Returns what a path answers with these parameters, as ``answer``."""
    function = ANSWERS.get(path)
    if function is None:
        raise NotFound(f"there is no answer {path[:100]!r}; expected one of {', '.join(sorted(ANSWERS))}")
    try:
        return function(runs, query)
    except AnswerError:
        raise
    except (ArtifactError, UnknownRunError) as error:
        raise NotFound(str(error)) from error
    except (StepscopeError, OSError, sqlite3.Error) as error:
        raise Gone(str(error) or repr(error)) from error
    except Exception as error:
        logger.exception("the answer to %s", path)
        raise AnswerError(f"the viewer failed at {path}: {type(error).__name__}; its log says more") from error
