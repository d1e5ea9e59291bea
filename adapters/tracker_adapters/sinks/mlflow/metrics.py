"""Scalars as MLflow metrics.

MLflow's databases cannot hold infinity and put the largest float64, 1.7976931348623157e+308, in its place.
In our runs that number stands for nothing else: a finite value that large is lowered to its neighbour.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import numpy as np

from tracker_adapters.sink import ScalarColumns
from tracker_adapters.sinks.mlflow.entries import MAX_REQUEST_BYTES, Entry, log_batch, requests_of, tag_entries
from tracker_adapters.sinks.mlflow.names import digest_of_cut_key, metric_key

NAME_TAG_PREFIX = "stepscope.name."
"""Tags that hold the whole name behind a key that had to be cut, by its checksum."""
INFINITY_TAG = "stepscope.infinity"
INFINITY_RULE = "metric values of ±1.7976931348623157e+308 stand for ±infinity"
LARGEST = float(np.finfo(np.float64).max)
_METRICS_PER_REQUEST = 1000
_BYTES_BESIDE_KEY = 140


class Metrics:
    """Sends scalars to one MLflow run, and tags with them."""

    def __init__(self, client: Any, run_id: str) -> None:
        self._client = client
        self._run_id = run_id
        self._keys: dict[str, str] = {}
        self._names: list[Entry] = []

    def send(self, scalars: ScalarColumns, tags: Mapping[str, str]) -> None:
        """Sends all scalars and tags, in one request where a server takes them in one.

        NaN stays NaN, for infinities see the module.
        """
        metrics = list(self._metrics_of(scalars)) if len(scalars) else []
        if np.isinf(scalars.values).any():
            tags = {**tags, INFINITY_TAG: INFINITY_RULE}
        entries, self._names = [*self._names, *tag_entries(tags)], []
        for some, request in zip_longest(metrics, requests_of(entries), fillvalue=()):
            log_batch(self._client, self._run_id, request, some)

    def _metrics_of(self, scalars: ScalarColumns) -> Iterator[list[Any]]:
        """Yields metrics in groups that fit into one request."""
        from mlflow.entities import Metric

        values = np.where(np.abs(scalars.values) == LARGEST, np.nextafter(scalars.values, 0), scalars.values)
        times_ms = scalars.times_ns // 1_000_000
        keys = self._keys_of(scalars)
        columns = (keys, values.tolist(), times_ms.tolist(), scalars.steps.tolist())
        metrics = [Metric(*row) for row in zip(*columns, strict=True)]
        size = _metrics_per_request(keys)
        for start in range(0, len(metrics), size):
            yield metrics[start : start + size]

    def goes_back(self, scalars: ScalarColumns) -> bool | None:
        """Returns whether a point repeats or precedes the last step of its series, at a later time.

        The time tells it from a point that is only sent again. None when the run has none of the series yet.
        """
        there = self._client.get_run(self._run_id).data.to_proto().metrics
        last = {metric.key: (metric.step, metric.timestamp) for metric in there}
        found = None
        times_ms = (scalars.times_ns // 1_000_000).tolist()
        for key, step, time_ms in zip(self._keys_of(scalars), scalars.steps.tolist(), times_ms, strict=True):
            if key in last:
                found = bool(found) or (step <= last[key][0] and time_ms > last[key][1])
        return found

    def _keys_of(self, scalars: ScalarColumns) -> list[str]:
        return [self._keys.get(name) or self._new_key(name) for name in scalars.names]

    def _new_key(self, name: str) -> str:
        key = self._keys[name] = metric_key(name)
        if digest := digest_of_cut_key(key):
            self._names.append(Entry("tag", NAME_TAG_PREFIX + digest, name))
        return key


def _metrics_per_request(keys: list[str]) -> int:
    longest = max(len(json.dumps(key)) for key in set(keys))  # as ASCII, which is how they are sent
    return min(_METRICS_PER_REQUEST, MAX_REQUEST_BYTES // (longest + _BYTES_BESIDE_KEY))
