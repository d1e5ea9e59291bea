"""The W&B SDK, held so that it neither shows up in this process nor stays in it."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_KEPT = frozenset(
    f"WANDB_{name}"
    for name in (
        "API_KEY", "APP_URL", "BASE_URL", "CONFIG_DIR", "CREDENTIALS_FILE", "HTTP_TIMEOUT", "IDENTITY_TOKEN_FILE",
        "INIT_TIMEOUT", "INSECURE_DISABLE_SSL", "X_EXTRA_HTTP_HEADERS",
    )
)  # fmt: skip
"""The variables that say how to reach the server; all others describe the user's own runs."""


@contextmanager
def own_environment(data_folder: Path) -> Iterator[None]:
    """Hides the user's W&B variables from the SDK, and keeps its copies of files in ``data_folder``.

    Hidden are, among others, WANDB_SERVICE, which would join the training process's W&B service, and
    WANDB_SWEEP_ID, which would join a sweep. Error reports to the vendor and all output are off.
    """
    hidden = {key: value for key, value in os.environ.items() if key.startswith("WANDB_") and key not in _KEPT}
    for key in hidden:
        del os.environ[key]
    ours = {
        "WANDB_CACHE_DIR": str(data_folder),
        "WANDB_DATA_DIR": str(data_folder),
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_SILENT": "true",
    }
    os.environ.update(ours)
    try:
        yield
    finally:
        for key in [key for key in os.environ if key.startswith("WANDB_") and key not in _KEPT]:
            del os.environ[key]
        os.environ.update(hidden)


def start(arguments: Mapping[str, Any]) -> Any:
    """Starts a run of its own, beside any other run of this process, and returns it.

    Args:
        arguments: Keywords of ``wandb.init``.
    """
    exit_function, hook = sys.exit, sys.excepthook
    import wandb

    settings = wandb.Settings(
        console="off",
        disable_code=True,
        disable_git=True,
        disable_job_creation=True,
        host="",
        label_disable=True,
        program="",
        quiet=True,
        save_code=False,
        silent=True,
        symlink=False,
        use_dot_wandb=False,
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
        x_transaction_log_flush_interval=0.5,
    )
    try:
        return wandb.init(**arguments, reinit="create_new", settings=settings)
    except BaseException:
        _release(exit_code=1, run=None, timeout_s=5.0)
        raise
    finally:
        sys.exit, sys.excepthook = exit_function, hook


def stop(run: Any, exit_code: int, timeout_s: float) -> bool:
    """Ends a run, and the service process and threads behind it unless another run uses them.

    Returns:
        Whether the service has ended by itself, and with it everything written to the run's file. After
        ``timeout_s`` seconds, or when the service is gone already, it is killed.
    """
    clean = _release(run=run, exit_code=exit_code, timeout_s=timeout_s)
    _close_log(Path(run.settings.log_user))
    return clean


def _release(*, run: Any, exit_code: int, timeout_s: float) -> bool:
    from wandb.sdk import wandb_setup

    library = wandb_setup.singleton()
    clean = threading.Event()

    def end() -> None:
        if run is not None:
            run.finish(exit_code=exit_code)
        if library.most_recent_active_run is None:
            wandb_setup.teardown()
            clean.set()

    _within(timeout_s, end)
    if not clean.is_set() and library.most_recent_active_run in (None, run):
        process = _process_of(library)
        if process is not None:
            process.kill()
            process.wait()
        _within(5.0, wandb_setup.teardown)
        _within(5.0, library.asyncer.join)
    return clean.is_set()


def _process_of(library: Any) -> Any:
    # The SDK has no public way to the service process that it started.
    place = library
    for attribute in ("_connection", "_proc", "_process"):
        place = getattr(place, attribute, None)
    return place


def _within(timeout_s: float, work: Callable[[], None]) -> None:
    def suppressed() -> None:
        # SystemExit too: the SDK raises it when its service fails.
        with suppress(BaseException):
            work()

    thread = threading.Thread(target=suppressed, name="stepscope-wandb-stop", daemon=True)
    thread.start()
    thread.join(timeout_s)


def _close_log(path: Path) -> None:
    # A run that could not finish leaves its log file open.
    logger = logging.getLogger("wandb")
    for handler in list(logger.handlers):
        if isinstance(handler, logging.FileHandler) and Path(handler.baseFilename) == path.absolute():
            logger.removeHandler(handler)
            handler.close()
