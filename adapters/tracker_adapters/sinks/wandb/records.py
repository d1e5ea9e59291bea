"""The records of a ``.wandb`` file, encoded without the SDK: importing that takes seconds and can hang or fail."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tracker_adapters.artifacts import RunInfo
from tracker_adapters.sinks.wandb.fields import message

_MIN_CONSUMER = "0.70.0"
"""What wandb 0.31 itself writes."""


def json_text(value: Any) -> str:
    """Returns a value as W&B's JSON, where NaN, Infinity and -Infinity are numbers."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def leaves(key: str, value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields what W&B keeps of a value: each entry of a mapping by itself, with the keys that lead to it."""
    if not isinstance(value, Mapping):
        yield (key,), value
        return
    for inner, part in value.items():
        for path, leaf in leaves(inner, part):
            yield (key, *path), leaf


def value_items(values: Mapping[str, Any]) -> bytes:
    """Returns the ``item`` fields of a row, which are also the ``update`` fields of a summary."""
    items = [
        message("HistoryItem", nested_key=path, value_json=json_text(leaf))
        for key, value in values.items()
        for path, leaf in leaves(key, value)
    ]
    return message("HistoryRecord", item=items)


def history(number: int, items: bytes) -> bytes:
    """Returns the record of a row, from its items."""
    return message("Record", history=items + message("HistoryRecord", step=message("HistoryStep", num=number)))


def summary(updates: bytes) -> bytes:
    """Returns the record of the last values, from its ``update`` fields."""
    return message("Record", summary=updates)


def header(producer: str) -> bytes:
    """Returns the record of who wrote the file."""
    version = message("VersionInfo", producer=producer, min_consumer=_MIN_CONSUMER)
    return message("Record", header=message("HeaderRecord", version_info=version))


def run(place: Mapping[str, Any], info: RunInfo, tags: Sequence[str], start_ns: int) -> bytes:
    """Returns the record of the run.

    Args:
        place: ``id``, ``entity``, ``project``, ``group``, ``name`` and ``notes``; what is missing stays empty.
        info: Our run, for its configuration and environment.
        tags: Its tags.
        start_ns: When it started, in nanoseconds since 1970; orders the files of one run.
    """
    updates = [message("ConfigItem", key=key, value_json=json_text(value)) for key, value in info.config.items()]
    commit = info.environment.get("commit")
    described = message(
        "RunRecord",
        run_id=place.get("id"),
        entity=place.get("entity"),
        project=place.get("project"),
        config=message("ConfigRecord", update=updates),
        run_group=place.get("group"),
        display_name=place.get("name"),
        notes=place.get("notes"),
        tags=tags,
        host=info.environment.get("host"),
        git=message("GitRepoRecord", commit=commit) if commit else None,
        start_time=message("Timestamp", seconds=start_ns // 10**9, nanos=start_ns % 10**9),
    )
    return message("Record", run=described)


def panel(key: str, described: Mapping[str, Any]) -> bytes:
    """Returns the record that adds a chart to the run's configuration."""
    item = message("ConfigItem", nested_key=("_wandb", "visualize", key), value_json=json_text(described))
    return message("Record", config=message("ConfigRecord", update=item))


def step_metric(key: str) -> bytes:
    """Returns the record that makes ``key`` the x axis of every metric."""
    options = message("MetricOptions", step_sync=True, defined=True)
    return message("Record", metric=message("MetricRecord", glob_name="*", step_metric=key, options=options))


def files(paths: Iterable[str]) -> bytes:
    """Returns the record of what is to be uploaded, by its path below the folder ``files``."""
    return message("Record", files=message("FilesRecord", files=[message("FilesItem", path=path) for path in paths]))


def run_exit(code: int, runtime_s: int) -> bytes:
    """Returns the last record of a run that has ended."""
    return message("Record", exit=message("RunExitRecord", exit_code=code, runtime=runtime_s))


def artifact(place: Mapping[str, str | None], about: Mapping[str, str], entry: Mapping[str, Any]) -> bytes:
    """Returns the record of a W&B artifact that holds one file.

    Args:
        place: ``id``, ``entity`` and ``project`` of the run.
        about: ``type``, ``name``, ``digest``, ``metadata``, ``client_id`` and ``sequence_client_id``.
        entry: Of its file, ``path``, ``digest``, ``size``, ``local_path`` and ``skip_cache``.
    """
    manifest = message(
        "ArtifactManifest",
        version=1,
        storage_policy="wandb-storage-policy-v1",
        storage_policy_config=message("StoragePolicyConfigItem", key="storageLayout", value_json='"V2"'),
        contents=message("ArtifactManifestEntry", **entry),
    )
    described = message(
        "ArtifactRecord",
        run_id=place.get("id"),
        project=place.get("project"),
        entity=place.get("entity"),
        aliases="latest",
        manifest=manifest,
        finalize=True,
        digest_algorithm="MANIFEST_MD5",
        **about,
    )
    return message("Record", artifact=described)
