"""A run's folder on an object store or any other file system that fsspec knows."""

import contextlib
import re
import secrets
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tracker_adapters.atomic_files import atomic_path
from tracker_adapters.errors import MissingPackageError, RunError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_S3_PROTOCOLS = ("s3", "s3a")
_S3_TIMEOUTS = {"connect_timeout": 10, "read_timeout": 30, "retries": {"max_attempts": 2}}
"""For botocore, whose own are 60 s each and 5 tries; whoever uses this tries again by itself."""


def is_url(path: object) -> bool:
    """Whether a path is a URL, such as ``s3://bucket/runs/exp1``."""
    return isinstance(path, str) and _URL.match(path) is not None


class RemotePlace:
    """A folder at a URL. Credentials come from the environment and configuration of fsspec's implementation.

    Objects are whole or not there, with one exception: where a file system is neither local nor an object store, a
    crash can leave a part of one. Readers trust what the index of sealed files lists with its checksum.
    """

    def __init__(self, url: str) -> None:
        """Connects to nothing yet.

        Raises:
            RunError: For a URL that holds a user or password, or whose protocol fsspec does not know.
            MissingPackageError: Without fsspec, or the package that its protocol needs; names the extra.
        """
        self.url = url.rstrip("/")
        parts = urlsplit(url)
        if parts.password is not None or (parts.username is not None and parts.scheme in _S3_PROTOCOLS):
            raise RunError(
                f"the URL {url} holds credentials; expected them in the environment or configuration of its client"
            )
        try:
            url_to_fs = import_module("fsspec.core").url_to_fs
        except ImportError as error:
            raise MissingPackageError(f"{self.url} needs fsspec, which is not installed: {_install(url)}") from error
        try:
            self._fs: Any
            # Listings are not cached: another machine may write here too.
            options: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
            if parts.scheme in _S3_PROTOCOLS:
                configured = import_module("fsspec.config").conf.get(parts.scheme, {}).get("config_kwargs", {})
                options["config_kwargs"] = _S3_TIMEOUTS | configured
            self._fs, self._root = url_to_fs(self.url, **options)
        except ImportError as error:
            raise MissingPackageError(f"{self.url}: {error}: {_install(url)}") from error
        except ValueError as error:
            raise RunError(f"{self.url}: {error}; expected a URL that fsspec knows, such as s3://bucket/run") from error
        self.replaces_in_place = parts.scheme in ("file", "local")
        """Whether a file is replaced by another one at once, as a rename does."""

    def read(self, name: str) -> bytes | None:
        """Returns an object's bytes; None when there is none."""
        try:
            content: bytes = self._fs.cat_file(self._path(name))
        except FileNotFoundError:
            return None
        return content

    def write(self, name: str, content: bytes) -> None:
        """Replaces an object by these bytes."""
        if not self.replaces_in_place:
            self._in_folder(name, lambda path: self._fs.pipe_file(path, content))
            return
        with self._replaced(name) as temporary, temporary.open("wb") as stream:
            stream.write(content)

    def upload(self, source: Path, name: str, progressed: Callable[[], object] = lambda: None) -> None:
        """Copies a file there.

        Args:
            source: The file.
            name: The object's name.
            progressed: Called after each piece, by clients that copy in pieces.

        Raises:
            OSError: When it did not arrive whole; object stores' clients raise errors of their own, too.
        """
        if self.replaces_in_place:
            with self._replaced(name) as temporary:
                self._fs.put_file(str(source), str(temporary))
        else:
            callback = import_module("fsspec.callbacks").Callback(hooks={"progressed": lambda *_, **__: progressed()})
            self._in_folder(name, lambda path: self._fs.put_file(str(source), path, callback=callback))
        found = self._fs.size(self._path(name))
        if found != (size := source.stat().st_size):
            raise OSError(f"{self.url}/{name} has {found} bytes after copying {size}")

    def download(self, name: str, target: Path) -> None:
        """Copies an object to a file, which may be there in part after an error."""
        self._fs.get_file(self._path(name), str(target))

    def remove(self, name: str) -> None:
        """Removes an object; does nothing when there is none."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path(name))

    def names(self) -> list[str]:
        """Returns the names of all objects, sorted."""
        try:
            found = self._fs.find(self._root)
        except FileNotFoundError:
            return []
        root = str(self._root).strip("/") + "/"
        return sorted(str(name).strip("/").removeprefix(root) for name in found)

    def check_writable(self) -> None:
        """Writes a small object and removes it.

        Raises:
            RunError: When that fails, with what the file system said.
        """
        probe = f".probe-{secrets.token_hex(4)}"
        try:
            self.write(probe, b"stepscope")
            self.remove(probe)
        except Exception as error:  # clients raise errors of their own
            raise RunError(
                f"cannot write to {self.url}: {error or repr(error)}; expected a place that exists and can be written"
            ) from error

    def _in_folder(self, name: str, put: Callable[[str], object]) -> None:
        """Puts an object there, and makes its folder where a file system does not do so by itself; never a bucket."""
        path = self._path(name)
        try:
            put(path)
        except FileNotFoundError:
            above = str(self._root).rpartition("/")[0]
            if not above or not self._fs.exists(above):
                raise
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            put(path)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _replaced(self, name: str) -> contextlib.AbstractContextManager[Path]:
        target = Path(self._path(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        return atomic_path(target.parent, target.name, sync="content")


def _install(url: str) -> str:
    extra = "s3" if urlsplit(url).scheme in _S3_PROTOCOLS else "remote"
    return f"pip install 'stepscope[{extra}]'"
