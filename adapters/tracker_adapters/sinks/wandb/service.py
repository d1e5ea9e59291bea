"""The W&B SDK, held so that it neither shows up in this process nor stays in it."""

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

_KEPT = frozenset(
    f"WANDB_{name}"
    for name in (
        "API_KEY", "APP_URL", "BASE_URL", "CONFIG_DIR", "CREDENTIALS_FILE", "HTTP_TIMEOUT", "IDENTITY_TOKEN_FILE",
        "INIT_TIMEOUT", "INSECURE_DISABLE_SSL", "X_EXTRA_HTTP_HEADERS",
    )
)  # fmt: skip
"""The variables that say how to reach the server; all others describe the user's own runs."""
_OURS = {"WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true"}


class _Environment:
    """Hides the user's W&B variables from the SDK while a run of ours is open.

    Hidden are, among others, WANDB_SERVICE, which would join the training process's W&B service, and
    WANDB_SWEEP_ID, which would join a sweep. Error reports to the vendor and all output are off.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = 0
        self._hidden: dict[str, str] = {}

    def enter(self) -> None:
        with self._lock:
            if not self._runs:
                self._hidden = self._take()
                os.environ.update(_OURS)
            self._runs += 1

    def leave(self) -> None:
        with self._lock:
            self._runs -= 1
            if not self._runs:
                self._take()
                os.environ.update(self._hidden)

    def _take(self) -> dict[str, str]:
        names = [name for name in os.environ if name.startswith("WANDB_") and name not in _KEPT]
        return {name: os.environ.pop(name) for name in names}


_environment = _Environment()


def keep_files_in(folder: Path) -> None:
    """Says where the SDK keeps its copies of files until they are uploaded; by default that is the home folder."""
    for variable in ("WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        if os.environ.get(variable) != str(folder):
            os.environ[variable] = str(folder)


def start(arguments: Mapping[str, Any], files: Path) -> Any:
    """Starts a run of its own, beside any other run of this process, and returns it.

    Args:
        arguments: Keywords of ``wandb.init``.
        files: See ``keep_files_in``.
    """
    exit_function, hook = sys.exit, sys.excepthook
    _environment.enter()
    try:
        keep_files_in(files)
        return _init(arguments)
    except BaseException:
        _environment.leave()
        raise
    finally:
        sys.exit, sys.excepthook = exit_function, hook


class Ending(NamedTuple):
    """How a run ended: ``finished``, the service agreed; ``on_disk``, the service has also ended by itself.

    While another run keeps the service, the last of the file can come some milliseconds late (1 of 20 times).
    """

    finished: bool
    on_disk: bool


def stop(run: Any, exit_code: int, timeout_s: float) -> Ending:
    """Ends a run, and the service process and threads behind it unless another run uses them.

    After ``timeout_s`` seconds, or when it fails, the service is killed.
    """
    ending = _release(run=run, exit_code=exit_code, timeout_s=timeout_s)
    _close_log(Path(run.settings.log_user))
    _environment.leave()
    return ending


def _init(arguments: Mapping[str, Any]) -> Any:
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
        **{name: 0.5 for name in ("x_transaction_log_flush_interval",) if name in wandb.Settings.model_fields},
    )
    try:
        return wandb.init(**arguments, reinit="create_new", settings=settings)
    except BaseException:
        _release(exit_code=1, run=None, timeout_s=5.0)
        raise


def _release(*, run: Any, exit_code: int, timeout_s: float) -> Ending:
    from wandb.sdk import wandb_setup

    library = wandb_setup.singleton()
    finished, gone = threading.Event(), threading.Event()

    def end() -> None:
        if run is not None:
            run.finish(exit_code=exit_code)
        finished.set()
        if library.most_recent_active_run is None:
            wandb_setup.teardown()
            gone.set()

    _within(timeout_s, end)
    if not gone.is_set() and library.most_recent_active_run in (None, run):
        process = _process_of(library)
        if process is not None:
            process.kill()
            process.wait()
        _within(5.0, wandb_setup.teardown)
        _within(5.0, library.asyncer.join)
    return Ending(finished.is_set(), gone.is_set())


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
