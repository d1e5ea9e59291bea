"""Creates MLflow's SQLite database atomically, even if several processes do so at once or one is killed."""

import fcntl
import itertools
import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from tracker_adapters.atomic_files import give_name, put_on_disk
from tracker_adapters.errors import SinkError, SinkUnavailable, UnsafeFileError
from tracker_adapters.fork_safe import TemporaryFolder
from tracker_adapters.safe_files import check_journal
from tracker_adapters.sinks.mlflow.sqlite_uri import remove_misread_folder, sqlite_uri

logger = logging.getLogger(__name__)

SETTLED_S = 30.0
"""A database that is not finished and was not written for so long has nobody who goes on with it."""
TIMEOUT_S = 300.0
"""How long to wait for another process that makes the database."""
_POLL_S = 0.1
_BUSY_S = 20.0
_BESIDE = ("-journal", "-wal", "-shm")
_FILLED_BY_MIGRATIONS = frozenset({"alembic_version", "workspaces"})

_State: TypeAlias = Literal["absent", "unfinished", "ready"]


def prepare_database(path: Path, progressed: Callable[[], object] = lambda: None) -> None:
    """Returns when the database is there with the schema of the installed MLflow.

    MLflow makes a database in place, in some 60 steps that take seconds of a processor, and cannot go on with one that
    was left half way: by a kill, by a full disk, or by another process that made it at the same moment. So it is made
    beside its place and linked there. One that was left half way by MLflow itself is set aside when nothing was
    recorded in it.

    Args:
        path: Of the database file; its folder is made.
        progressed: Called again and again while another process makes the database.

    Raises:
        SinkError: When the database has the schema of another MLflow, which its owner has to decide on, when it cannot
            be read or its journal names another file, which SQLite would delete, or when it cannot be made.
        SinkUnavailable: When another process was still at it after five minutes.
    """
    if _examine(path) == "ready":
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + TIMEOUT_S
    with _turn(path.parent, deadline, progressed):
        while (state := _examine(path)) != "ready":
            if state == "absent":
                _make(path)
            elif _written_at(path) + SETTLED_S < time.time():
                _set_aside(path)
            elif time.monotonic() > deadline:
                raise SinkUnavailable(f"{path} is still being created by another process after {TIMEOUT_S:.0f} s")
            else:
                progressed()
                time.sleep(_POLL_S)


def _examine(path: Path) -> _State:
    """Looks at the file itself: MLflow would begin to change it."""
    if not path.exists():
        return "absent"
    real = path.resolve()  # beside which SQLite looks for a journal
    try:
        check_journal(real.parent, f"{real.name}-journal")
        # Not mode=ro, which cannot roll back what a killed process left.
        with closing(
            sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=rw", uri=True, timeout=_BUSY_S)
        ) as database:
            database.execute("begin")  # what is read is of one moment: a migration makes and drops tables meanwhile
            tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
            version = (
                database.execute("select version_num from alembic_version").fetchone()
                if ("alembic_version" in tables)
                else None
            )
            if version is None and tables and not any(name.endswith("experiments") for name in tables):
                return "ready"  # somebody's database for other things, to which MLflow adds its tables
            nothing_recorded = not any(
                database.execute(f'select 1 from "{name}" limit 1').fetchone()
                for name in tables
                if name.removeprefix("_alembic_tmp_") not in _FILLED_BY_MIGRATIONS
            )
    except (sqlite3.Error, UnsafeFileError) as error:
        raise SinkError(f"cannot read the tracking database {path}: {error}") from None
    newest, known = _schema_versions()
    if version is not None and version[0] == newest:
        return "ready"
    if nothing_recorded:
        return "unfinished"
    raise SinkError(_of_another_version(path, None if version is None else str(version[0]), newest, known))


def _of_another_version(path: Path, version: str | None, newest: str, known: frozenset[str]) -> str:
    import mlflow

    found = f"the tracking database {path} has schema {version}, and MLflow {mlflow.__version__} needs {newest}"
    if version is not None and version not in known:
        return f"{found}: it is of a newer MLflow; install that, or name another target"
    return f"{found}: stop what uses it, keep a copy of it, and run: mlflow db upgrade '{sqlite_uri(path)}'"


@cache
def _schema_versions() -> tuple[str, frozenset[str]]:
    """Returns the schema version of the installed MLflow, and all that it knows: it imports each to find out."""
    import mlflow
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(Path(mlflow.__file__).parent / "store" / "db_migrations"))
    return str(scripts.get_current_head()), frozenset(one.revision for one in scripts.walk_revisions())


def _make(path: Path) -> None:
    """Makes a database in a folder of its own and links it to its place, unless another one has come there."""
    for left_over in path.parent.glob(f".{path.name}.*.new"):  # by a process that was killed
        shutil.rmtree(left_over, ignore_errors=True)
    try:
        with TemporaryFolder(f".{path.name}.", suffix=".new", parent=path.parent) as folder:
            made = folder.path / path.name
            _migrate(made, path.parent / "mlartifacts")
            put_on_disk(made)
            for name in _BESIDE:  # what a database of this name left would be taken for a part of the new one
                if (old := path.with_name(path.name + name)).exists():
                    old.rename(_unused(old))
            with suppress(FileExistsError):  # another one that came meanwhile is looked at by the caller
                give_name(path.parent, made.relative_to(path.parent), path.name, replaces=False)
    except OSError as error:
        raise SinkUnavailable(f"cannot create the tracking database {path}: {error}") from None
    put_on_disk(path.parent)


def _migrate(path: Path, artifacts: Path) -> None:
    from mlflow.exceptions import MlflowException
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
    from sqlalchemy.exc import SQLAlchemyError

    try:
        # As a URI: MLflow puts the path into SQL text of its own, in which some characters do harm.
        store: Any = SqlAlchemyStore(uri := sqlite_uri(path), artifacts.absolute().as_uri())
    except (SQLAlchemyError, MlflowException) as error:
        raise OSError(str(error)) from None
    store.engine.dispose()
    remove_misread_folder(uri)


def _set_aside(path: Path) -> None:
    aside = _unused(path)
    logger.warning(
        "%s was incomplete and empty; it was renamed to %s, and a new one is created",
        path,
        aside.name,
    )
    for name in (*_BESIDE, ""):  # the database last: a journal must never lie beside another database
        if (old := path.with_name(path.name + name)).exists():
            old.rename(aside.with_name(aside.name + name))


def _unused(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.unfinished-{number}") for number in itertools.count(1))
    return next(name for name in names if not name.exists())


def _written_at(path: Path) -> float:
    """Returns when the database or what belongs to it was last written, in seconds since the epoch."""
    times = [0.0]
    for name in ("", *_BESIDE):
        try:
            times.append(path.with_name(path.name + name).stat().st_mtime)
        except FileNotFoundError:
            continue
    return max(times)


@contextmanager
def _turn(folder: Path, deadline: float, progressed: Callable[[], object]) -> Iterator[None]:
    """One process at a time, so that only one does the work; where a folder cannot be locked, each one does it."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while not _locked(fd):
            if time.monotonic() > deadline:
                raise SinkUnavailable(f"another process holds {folder} to make a tracking database, for too long")
            progressed()
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks on folders
        return True
    return True
