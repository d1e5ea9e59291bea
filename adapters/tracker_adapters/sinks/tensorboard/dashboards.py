"""What TensorBoard's pages HPARAMS and CUSTOM SCALARS show of a run: its configuration, and a layout of its charts."""

import math
import re
from collections.abc import Iterable
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import DATA_CLASS_TENSOR, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import metadata as layout_metadata
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.plugins.hparams import metadata as hparams_metadata

from tracker_adapters.artifacts import Cell, RunInfo, RunStatus
from tracker_adapters.sink import metrics_first

TAGS = frozenset(
    {
        hparams_metadata.EXPERIMENT_TAG,
        hparams_metadata.SESSION_START_INFO_TAG,
        hparams_metadata.SESSION_END_INFO_TAG,
        layout_metadata.CONFIG_SUMMARY_TAG,
    }
)
"""The tags of events that are no artifact's."""
MOST_PARAMETERS = 1000
MOST_METRICS = 20
_LONGEST_VALUE = 1000
_SCOPE = "(.*/)?"
LAYOUT = {
    "loss": {
        "loss": [rf"{_SCOPE}loss$"],
        "metrics of the validation": [rf"{_SCOPE}validation/[^/]+$"],
        "learning rate": [rf"{_SCOPE}learning_rate(/\d+)?$"],
    },
    "gradient health": {
        "norm of all gradients": [rf"{_SCOPE}total_norm/gradients$", rf"{_SCOPE}diagnosis/(un)?clipped_norm$"],
        "gradient norm of each parameter": [rf"{_SCOPE}gradient_norm/"],
        "size of updates against weights, of each parameter": [rf"{_SCOPE}update_ratio/"],
        "share of gradients that are zero": [rf"{_SCOPE}diagnosis/gradient_zeros/"],
        "share of dead units": [rf"{_SCOPE}diagnosis/dead_units/"],
        "share of saturated units": [rf"{_SCOPE}diagnosis/saturated/"],
    },
}
"""The charts of CUSTOM SCALARS, by group and title: patterns that the beginning of a tag must match."""


def first_events(info: RunInfo) -> list[bytes]:
    """Returns the events that begin a file: the run's configuration as hyperparameters, and the layout."""
    events = [_layout()]
    if hparams := _hyperparameters(info):
        start = plugin_data_pb2.SessionStartInfo(
            group_name=f"{info.name} ({info.id[-8:]})", start_time_secs=info.created_ns / 1e9
        )
        for name, value in hparams.items():
            field = "bool_value" if isinstance(value, bool) else "string_value"
            field = "number_value" if isinstance(value, (int, float)) and not isinstance(value, bool) else field
            setattr(start.hparams[name], field, value)
        content = plugin_data_pb2.HParamsPluginData(session_start_info=start)
        events.append(_hparams(hparams_metadata.SESSION_START_INFO_TAG, content))
    return [_event(info.created_ns / 1e9, value) for value in events]


def last_events(info: RunInfo, status: RunStatus, ended_s: float, tags: Iterable[str]) -> list[bytes]:
    """Returns the events that end a file: how the run ended, and which of its scalars are metrics.

    Without them TensorBoard takes each scalar for a metric. It takes the list of columns from one run of its folder.
    """
    hparams = _hyperparameters(info)
    if status == "running" or not hparams:
        return []
    word = api_pb2.STATUS_SUCCESS if status == "finished" else api_pb2.STATUS_FAILURE
    end = plugin_data_pb2.SessionEndInfo(status=word, end_time_secs=ended_s)
    experiment = api_pb2.Experiment(
        hparam_infos=[api_pb2.HParamInfo(name=name, type=_type(value)) for name, value in hparams.items()],
        metric_infos=[
            api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in metrics_first(tags, MOST_METRICS)
        ],
        time_created_secs=info.created_ns / 1e9,
    )
    values = [
        _hparams(hparams_metadata.EXPERIMENT_TAG, plugin_data_pb2.HParamsPluginData(experiment=experiment)),
        _hparams(hparams_metadata.SESSION_END_INFO_TAG, plugin_data_pb2.HParamsPluginData(session_end_info=end)),
    ]
    return [_event(ended_s, value) for value in values]


def _hyperparameters(info: RunInfo) -> dict[str, bool | float | str]:
    """The configuration as the plugin takes it: numbers that are not finite have no place in its JSON."""
    config = list(info.flat_config().items())[:MOST_PARAMETERS]
    return {name: _plain(value) for name, value in config if name}


def _plain(value: Cell) -> bool | float | str:
    if isinstance(value, bool) or (isinstance(value, (int, float)) and math.isfinite(value)):
        return value
    return re.sub(r"\s+", " ", str(value))[:_LONGEST_VALUE]


def _type(value: bool | float | str) -> Any:
    if isinstance(value, bool):
        return api_pb2.DATA_TYPE_BOOL
    return api_pb2.DATA_TYPE_STRING if isinstance(value, str) else api_pb2.DATA_TYPE_FLOAT64


def _layout() -> Summary.Value:
    categories = [
        layout_pb2.Category(
            title=title,
            chart=[
                layout_pb2.Chart(title=name, multiline=layout_pb2.MultilineChartContent(tag=patterns))
                for name, patterns in charts.items()
            ],
        )
        for title, charts in LAYOUT.items()
    ]
    content = layout_pb2.Layout(category=categories).SerializeToString()
    return Summary.Value(
        tag=layout_metadata.CONFIG_SUMMARY_TAG,
        tensor=TensorProto(dtype=DT_STRING, tensor_shape=TensorShapeProto(), string_val=[content]),
        metadata=_metadata(layout_metadata.PLUGIN_NAME, b""),
    )


def _hparams(tag: str, content: plugin_data_pb2.HParamsPluginData) -> Summary.Value:
    content.version = hparams_metadata.PLUGIN_DATA_VERSION
    return Summary.Value(
        tag=tag,
        tensor=hparams_metadata.NULL_TENSOR,
        metadata=_metadata(hparams_metadata.PLUGIN_NAME, content.SerializeToString(deterministic=True)),
    )


def _metadata(plugin: str, content: bytes) -> SummaryMetadata:
    data = SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    return SummaryMetadata(plugin_data=data, data_class=DATA_CLASS_TENSOR)


def _event(time_s: float, value: Summary.Value) -> bytes:
    event: bytes = Event(wall_time=time_s, step=0, summary=Summary(value=[value])).SerializeToString()
    return event
