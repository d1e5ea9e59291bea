"""The connection to a tracking server or database: MLflow's client with short timeouts and no output."""

import functools
import logging
import os
import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from tracker_adapters.errors import MissingPackageError, SinkError
from tracker_adapters.fork_safe import TemporaryFolder
from tracker_adapters.redaction import redact
from tracker_adapters.sinks.mlflow.database import prepare_database
from tracker_adapters.sinks.mlflow.sqlite_uri import remove_misread_folder, sqlite_path

OLDEST_VERSION = (3, 1)
_INSTALL = "pip install 'stepscope[mlflow]'"
_DATABASES = {"sqlite", "postgresql", "mysql", "mssql"}
_ENVIRONMENT = {
    # Delivery retries by itself, with pauses that grow; MLflow's defaults (120 s, 7 retries) would hold it for minutes,
    # and with retries of its own it would sleep as long as a Retry-After header tells it to.
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "15",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "PGCONNECT_TIMEOUT": "10",  # read by PostgreSQL's client library, which else waits as long as TCP does
    "MLFLOW_CONFIGURE_LOGGING": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def connect(target: str, progressed: Callable[[], object] = lambda: None) -> Any:
    """Imports MLflow, silent and impatient unless the environment says otherwise, and returns an MlflowClient.

    Args:
        target: A tracking URI; a SQLite database that is not there is made.
        progressed: Called again and again while another process makes the database.

    Raises:
        MissingPackageError: When MLflow is too old or cannot be imported, or a database's driver is not installed.
        SinkError: When a database cannot be reached, made or used; a server is asked only by the first request.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic", "matplotlib"):
        # Without any handler Python itself prints warnings to stderr.
        logging.getLogger(name).addHandler(logging.NullHandler())
    client_class = _import_client()
    if (path := sqlite_path(target)) is not None:
        prepare_database(path, progressed)
    _reach_database(target)
    client = client_class(tracking_uri=target)
    remove_misread_folder(target)
    return client


class ReportingClient:
    """An MlflowClient that calls ``progressed`` whenever a method of it has returned.

    A server ends a connection on which nothing was asked for some seconds, uvicorn after 5. A request that is sent at
    that moment has no answer, and is made again at once: a failure would have the sink opened again, which costs
    several requests. What makes something new is left to the caller, who looks first whether it was made.

    Unlike MLflow's own, its methods that read artifacts ask a server for nothing but artifacts: those would ask for the
    run twice and search its models each time.
    """

    def __init__(self, client: Any, target: str, progressed: Callable[[], object]) -> None:
        self._client = client
        self._target = target
        self._progressed = progressed

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return functools.partial(self._call if name.startswith("create_") else self._call_again_if_dropped, method)

    def names_of_artifacts(self, run: Any, folder: str) -> list[str]:
        """Returns the names of what lies in a folder of a run's artifacts; none when it is not there."""
        import mlflow.artifacts

        ask = mlflow.artifacts.list_artifacts
        found = self._call_again_if_dropped(ask, artifact_uri=self._uri(run, folder), tracking_uri=self._target)
        return [posixpath.basename(entry.path) for entry in found]

    def read_artifact(self, run: Any, path: str) -> bytes:
        """Returns the content of one of a run's artifact files."""
        import mlflow.artifacts

        uri, download = self._uri(run, path), mlflow.artifacts.download_artifacts
        with TemporaryFolder("stepscope_") as folder:
            file = self._call_again_if_dropped(download, uri, dst_path=str(folder.path), tracking_uri=self._target)
            return Path(file).read_bytes()

    def _call(self, method: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        result = method(*args, **kwargs)
        self._progressed()
        return result

    def _call_again_if_dropped(self, method: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return self._call(method, *args, **kwargs)
        except Exception as error:
            if not _was_dropped(error):
                raise
        return self._call(method, *args, **kwargs)

    def _uri(self, run: Any, path: str) -> str:
        from mlflow.utils.uri import add_databricks_profile_info_to_artifact_uri, append_to_uri_path

        root = add_databricks_profile_info_to_artifact_uri(run.info.artifact_uri, self._target)
        return str(append_to_uri_path(root, path))


def without_secrets(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Makes a method raise SinkError with a redacted text in place of an error whose text shows a secret."""

    def guarded(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if (shown := redact(text)) == text:
                raise
            raise SinkError(shown) from None  # the cause would show it again in a traceback

    functools.update_wrapper(guarded, method)
    return guarded


def _was_dropped(error: BaseException | None) -> bool:
    """Whether an error comes from a connection that the other side ended before it answered."""
    while error is not None and not isinstance(error, (ConnectionResetError, BrokenPipeError)):
        error = error.__context__  # urllib3 names as cause what was never raised
    return error is not None


def _import_client() -> Any:
    try:
        import mlflow
    except (Exception, SystemExit) as error:  # an installation can be broken in any way
        raise MissingPackageError(f"sink 'mlflow' cannot import mlflow: {error!r}: {_INSTALL}") from error
    version = str(getattr(mlflow, "__version__", "unknown"))
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_VERSION:
        wanted = ".".join(map(str, OLDEST_VERSION))
        raise MissingPackageError(f"sink 'mlflow' needs mlflow>={wanted}, and {version} is installed: {_INSTALL}")
    return mlflow.MlflowClient


def _reach_database(target: str) -> None:
    """Fails at once where a database does not answer; MLflow would try for 100 seconds."""
    if target.partition(":")[0].partition("+")[0] not in _DATABASES:
        return
    import sqlalchemy
    from sqlalchemy.pool import NullPool

    try:
        engine = sqlalchemy.create_engine(target, poolclass=NullPool)
    except ImportError as error:
        wanted = "a driver that is installed, such as postgresql+psycopg2://"
        raise MissingPackageError(redact(f"cannot open {target}: {error}; install it, or name {wanted}")) from error
    try:
        engine.connect().close()
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise SinkError(redact(f"cannot reach the tracking database {target}: {error}")) from None
    finally:
        engine.dispose()
