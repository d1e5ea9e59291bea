"""A PostgreSQL of the tests' own, from Debian's packages, in a temporary folder."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import psycopg2
import pytest
from servers import free_port

USER, PASSWORD = "tracker", "p@ss-w0rd"


def why_not() -> str | None:
    """Returns why PostgreSQL cannot be run here; None where it can."""
    if not _initdbs():
        return "no PostgreSQL: apt-get install postgresql"
    if os.geteuid() == 0 and not (shutil.which("setpriv") and _exists("postgres")):
        return "PostgreSQL does not run as root, and there is no user 'postgres' to run it as"
    return None


def programs() -> Path:
    """Returns the folder of PostgreSQL's programs; skips the test where they cannot be run."""
    if reason := why_not():
        pytest.skip(reason)
    return _initdbs()[-1].parent


@contextmanager
def postgres() -> Iterator[str]:
    """Runs a new cluster on 127.0.0.1 until the block ends; yields the URI of its database ``mlflow``."""
    bin_folder, port = programs(), free_port()
    folder = Path(mkdtemp(prefix="stepscope_pg_", dir="/tmp"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o644)
        data = folder / "data"
        access = ["--username", USER, "--pwfile", str(folder / "password"), "--auth", "scram-sha-256"]
        _run([str(bin_folder / "initdb"), "--pgdata", str(data), "--no-sync", "--encoding", "UTF8", *access])
        settings = f"-h 127.0.0.1 -p {port} -k {folder} -c fsync=off"
        control = [str(bin_folder / "pg_ctl"), "--pgdata", str(data), "--log", str(folder / "log"), "-w"]
        _run([*control, "-o", settings, "start"])
        try:
            connection = psycopg2.connect(host="127.0.0.1", port=port, user=USER, password=PASSWORD, dbname="postgres")
            connection.autocommit = True
            connection.cursor().execute("CREATE DATABASE mlflow")
            connection.close()
            yield f"postgresql+psycopg2://{USER}:{PASSWORD.replace('@', '%40')}@127.0.0.1:{port}/mlflow"
        finally:
            _run([*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _initdbs() -> list[Path]:
    return sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


def _run(command: Sequence[str]) -> None:
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*as_user, *command], cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120, check=False
    )
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}"


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
