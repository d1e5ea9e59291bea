"""The answers by their paths, and how an address is answered."""

import logging
import sqlite3
from collections.abc import Callable

from tracker_adapters.errors import ArtifactError, StepscopeError

from stepscope.viewer.answers.alerts import alerts_answer
from stepscope.viewer.answers.answer import Answer, AnswerError, Gone, NotFound
from stepscope.viewer.answers.compare import causes_answer, compare_answer
from stepscope.viewer.answers.datapoints import (
    changes_answer,
    datapoint_answer,
    datapoints_answer,
    judged_answer,
    picture_answer,
)
from stepscope.viewer.answers.histograms import histograms_answer
from stepscope.viewer.answers.images import image_answer, images_answer
from stepscope.viewer.answers.layers import layers_answer
from stepscope.viewer.answers.names import names_answer
from stepscope.viewer.answers.parting import parting_answer
from stepscope.viewer.answers.query import Query
from stepscope.viewer.answers.run_details import run_answer
from stepscope.viewer.answers.runs import positions_answer, runs_answer
from stepscope.viewer.answers.series import csv_answer, series_answer
from stepscope.viewer.answers.texts import curves_answer, file_answer, files_answer, tables_answer, texts_answer
from stepscope.viewer.answers.verdict import verdict_answer
from stepscope.viewer.watched_runs import RunList, UnknownRunError

logger = logging.getLogger(__name__)

ANSWERS: dict[str, Callable[[RunList, Query], Answer]] = {
    "alerts": alerts_answer,
    "causes": causes_answer,
    "changes": changes_answer,
    "compare": compare_answer,
    "csv": csv_answer,
    "curves": curves_answer,
    "datapoint": datapoint_answer,
    "datapoints": datapoints_answer,
    "file": file_answer,
    "files": files_answer,
    "histograms": histograms_answer,
    "image": image_answer,
    "images": images_answer,
    "judged": judged_answer,
    "layers": layers_answer,
    "names": names_answer,
    "parting": parting_answer,
    "picture": picture_answer,
    "positions": positions_answer,
    "run": run_answer,
    "runs": runs_answer,
    "series": series_answer,
    "tables": tables_answer,
    "texts": texts_answer,
    "verdict": verdict_answer,
}

ALWAYS_ANEW = frozenset({"csv", "datapoints", "positions", "run", "runs"})
"""Paths whose answers change while the positions of the runs that they name stay, or are made while they are sent:
these are never kept."""


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
