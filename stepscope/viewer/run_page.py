"""The viewer's page of a run as an artifact of the run, for its sinks: written when the run closes."""

import logging
from typing import TYPE_CHECKING

from tracker_adapters.errors import StepscopeError
from tracker_adapters.fork_safe import TemporaryFolder
from tracker_adapters.reports import page_name
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.values.metric_names import last_step

from stepscope.runs.byte_sizes import format_bytes
from stepscope.viewer.export import export_page

if TYPE_CHECKING:
    from stepscope.runs.live_run import Run

SECONDS = 5.0
"""What is not in the page by then is left out of it: somebody waits for the run to close."""

logger = logging.getLogger(__name__)


def record_page(run: "Run") -> None:
    """Records the page of everything that the run has stored, as one file; where it cannot be made, the log says why.

    Each sink shows it as it can: MLflow as an artifact that its page opens, W&B as HTML, the local sink as a file.
    """
    run.flush_store(SECONDS)
    run.save_end()  # the page is looked at later, and says how the run ended
    with TemporaryFolder("stepscope_page_") as folder:
        try:
            made = export_page(run.path, folder.path, data_bytes=0, seconds=SECONDS)
        except (StepscopeError, OSError) as error:
            logger.warning("no page is recorded for the run %s: %s", run.path, error)
            return
        with RunRecord(run.path) as record:
            step = last_step((info.name, info.last_step) for info in record.names(run.rank)) or 0
        run.file(made.page, media_type="text/html", step=step, name=page_name(run.attempt))
        run.flush_store(SECONDS)
    logger.info("the page of %s takes %s", run.path, format_bytes(made.page_bytes))
