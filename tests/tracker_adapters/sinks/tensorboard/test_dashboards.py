"""What TensorBoard's own readers find of a run's configuration and of the layout of its charts."""

import json
import math
import re
from types import SimpleNamespace

import pytest
from tensorboard.backend.event_processing import data_provider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.custom_scalar.custom_scalars_plugin import CustomScalarsPlugin
from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups
from tracker_adapters.sinks.tensorboard.dashboards import LAYOUT

import stepscope

CONFIG = {"optimizer": {"lr": 0.1, "nesterov": True}, "name": "</script>", "limit": math.inf, "nothing": None}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for number, status in enumerate(("finished", "failed")):
        run = stepscope.open_run(folder / f"exp{number}", sinks=["tensorboard"], delivery="thread", config=CONFIG)
        for step in range(3):
            run.scalar("loss", 1.0 - step / 10 + number, step=step)
            run.scalar("validation/accuracy", step / 10, step=step)
            run.scalar("gradient_norm/fc1.weight", 1.0, step=step)
            run.scalar("total_norm/gradients", 1.0, step=step)
        run.text("custom_scalars__config__", "a name that is taken", step=0)
        assert run.finish(status)
    return folder


@pytest.fixture(scope="module")
def context(folder):
    multiplexer = EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(folder))
    multiplexer.Reload()
    return TBContext(
        data_provider=data_provider.MultiplexerDataProvider(multiplexer, str(folder)), flags=SimpleNamespace()
    )


def test_the_run_has_its_folders_name(context):
    runs = context.data_provider.list_runs(RequestContext(), experiment_id="")
    assert sorted(run.run_name for run in runs) == ["exp0", "exp1"]


def test_configuration_and_metrics_are_hyperparameters(context):
    hparams = backend_context.Context(context)
    metadata = hparams.hparams_metadata(RequestContext(), "")
    request = api_pb2.GetExperimentRequest(include_metrics=True)
    experiment = get_experiment.Handler(RequestContext(), hparams, "", request).run()
    assert {info.name for info in experiment.hparam_infos} == {
        "optimizer.lr", "optimizer.nesterov", "name", "limit", "nothing",
    }  # fmt: skip
    assert [info.name.tag for info in experiment.metric_infos] == [
        "loss",
        "validation/accuracy",
        "total_norm/gradients",
    ]
    request = api_pb2.ListSessionGroupsRequest(
        start_index=0,
        slice_size=10,
        allowed_statuses=[api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE],
        include_metrics=True,
    )
    groups = list_session_groups.Handler(RequestContext(), hparams, "", request).run().session_groups
    assert len(metadata) == len(groups) == 2
    [first] = [group for group in groups if group.sessions[0].name == "exp0"]
    assert first.hparams["optimizer.lr"].number_value == 0.1
    assert first.hparams["optimizer.nesterov"].bool_value is True
    assert (first.hparams["limit"].string_value, first.hparams["name"].string_value) == ("inf", "</script>")
    values = {value.name.tag: value.value for value in first.metric_values}
    assert values["loss"] == pytest.approx(0.8)
    assert {group.sessions[0].status for group in groups} == {api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE}


def test_the_layout_of_several_runs_is_one_with_the_loss_first(context):
    layout = json.loads(CustomScalarsPlugin(context).layout_impl(RequestContext(), ""))
    assert [category["title"] for category in layout["category"]] == ["loss", "gradient health"]
    assert [chart["title"] for chart in layout["category"][1]["chart"]] == list(LAYOUT["gradient health"])


@pytest.mark.parametrize(
    ("tag", "chart"),
    [
        ("loss", "loss"),
        ("D/loss", "loss"),
        ("D/validation/f1", "metrics of the validation"),
        ("learning_rate/1", "learning rate"),
        ("diagnosis/unclipped_norm", "norm of all gradients"),
    ],
)
def test_a_chart_takes_what_its_title_says(tag, chart):
    matching = [
        title
        for charts in LAYOUT.values()
        for title, patterns in charts.items()
        if any(re.match(pattern, tag) for pattern in patterns)
    ]
    assert matching[-1:] == [chart]


def test_a_resumed_run_goes_on_where_its_events_were(tmp_path):
    for attempt in range(2):
        run = stepscope.open_run(
            tmp_path / "run", sinks=["tensorboard"], delivery="thread", config=CONFIG, resume=attempt > 0
        )
        with run:
            run.scalar("loss", 1.0, step=attempt)
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(tmp_path)).Reload()
    assert [event.step for event in multiplexer.Tensors("run", "loss")] == [0, 1]
