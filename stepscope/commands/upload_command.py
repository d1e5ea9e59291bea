"""``stepscope upload``: copies a run to where it belongs, or to another place."""

import sys
import threading

import click
from tracker_adapters.errors import RunError

from stepscope.commands.common import echo, one_line_errors


@click.command("upload")
@click.argument("run")
@click.argument("url", required=False)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Give up after so many seconds without progress.",
)
@one_line_errors
def command(run: str, url: str | None, timeout: float) -> None:
    """Upload RUN to URL, or continue an interrupted upload.

    RUN is a run's folder, or the URL at which a run was opened on this machine. URL is any that fsspec supports, such
    as s3://bucket/runs/exp1. Files that are there already, by checksum, are not uploaded again. For a live run, the
    command continues until the run has ended.
    """
    from tracker_adapters.remote.local_copy import UPLOAD_LOG
    from tracker_adapters.remote.opening import upload_existing
    from tracker_adapters.remote.upload import EXIT_CODES, upload

    from stepscope.runs.places import place_of

    folder = place_of(run).folder
    home = upload_existing(folder, url)
    outcome = upload(folder, stopping=threading.Event(), give_up_s=timeout, wait_s=timeout)
    if outcome != "done":
        raise RunError(
            f"{folder} is not completely uploaded to {home.url}: {outcome.replace('_', ' ')}; see {folder / UPLOAD_LOG}"
        )
    echo(f"{folder} is at {home.url}")
    sys.exit(EXIT_CODES[outcome])
