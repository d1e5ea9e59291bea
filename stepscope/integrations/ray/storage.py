"""The folder of a trainer's results, as a path or a URL by which a run can be opened there."""

from __future__ import annotations

from typing import Any

from stepscope.errors import SessionError
from stepscope.integrations.frameworks import imported_for

with imported_for("ray"):
    import ray.train

NAME = "stepscope"
"""The run's folder among the results."""
_SCHEMES = {"s3": "s3", "gcs": "gs", "abfs": "abfs", "hdfs": "hdfs"}
_FSSPEC = "py::fsspec+"


def run_in_storage() -> str:
    """Returns where the run of this worker's training lies if nobody said where: in the trainer's folder of results.

    Raises:
        SessionError: For a file system of pyarrow that no URL names.
    """
    storage: Any = ray.train.get_context().get_storage()
    kind, path = storage.storage_filesystem.type_name, str(storage.experiment_fs_path)
    if kind == "local":
        return f"{path}/{NAME}"
    protocol = kind.removeprefix(_FSSPEC) if kind.startswith(_FSSPEC) else _SCHEMES.get(kind, "")
    if not protocol:
        raise SessionError(
            f"the trainer's results lie in a file system {kind!r}; expected watched(train_loop, run=...)"
        )
    return f"{protocol}://{path.lstrip('/')}/{NAME}"
