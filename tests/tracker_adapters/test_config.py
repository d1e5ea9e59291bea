"""Choosing sinks: strings, mappings, files and the environment."""

import pytest
from tracker_adapters import registry
from tracker_adapters.config import SinkConfig, choose_sinks
from tracker_adapters.errors import MissingPackageError, SinkConfigError
from tracker_adapters.registry import SinkSpec
from tracker_adapters.testing import MemorySink


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs" / "exp1"


def types(chosen):
    return [config.type for config in chosen if isinstance(config, SinkConfig)]


def test_the_designs_list_is_understood(folder, tmp_path):
    chosen = choose_sinks(
        ["tensorboard", f"mlflow:sqlite:///{tmp_path}/x.db", "wandb", {"type": "local", "path": tmp_path / "out"}],
        folder,
        environ={},
    )
    assert types(chosen) == ["tensorboard", "mlflow", "wandb", "local"]
    assert chosen[1].target == f"sqlite:///{tmp_path}/x.db"
    assert chosen[3].target == str(tmp_path / "out")


def test_a_mapping_a_toml_file_and_one_name_mean_the_same(folder, tmp_path):
    file = tmp_path / "sinks.toml"
    file.write_text('sinks = ["tensorboard", {type = "local"}]')
    wanted = choose_sinks(["tensorboard", "local"], folder, environ={})
    assert choose_sinks({"sinks": ["tensorboard", "local"]}, folder, environ={}) == wanted
    assert choose_sinks(file, folder, environ={}) == wanted
    assert choose_sinks(str(file), folder, environ={}) == wanted
    assert choose_sinks("local", folder, environ={}) == wanted[1:]


@pytest.mark.parametrize(
    ("variable", "wanted"),
    [
        ("tensorboard,local", ["tensorboard", "local"]),
        (' [ "wandb", {"type": "local"} ]', ["wandb", "local"]),
        ("none", []),
        ("", []),
    ],
)
def test_the_environment_overrides_the_code(folder, variable, wanted):
    assert types(choose_sinks(["mlflow"], folder, environ={"STEPSCOPE_SINKS": variable})) == wanted


def test_an_unknown_name_lists_the_known_ones_and_the_nearest(folder):
    with pytest.raises(SinkConfigError, match="'tensorbord'; did you mean 'tensorboard'") as caught:
        choose_sinks("tensorbord", folder, environ={})
    assert all(name in str(caught.value) for name in ("local", "mlflow", "tensorboard", "wandb"))


def test_a_missing_package_names_the_extra_or_falls_back(folder, monkeypatch):
    spec = SinkSpec("tracker_adapters.sinks.wandb:WandbSink", ("no_such_package_here",), "wandb")
    monkeypatch.setitem(registry.BUILT_IN, "wandb", spec)
    with pytest.raises(MissingPackageError, match=r"no_such_package_here.*stepscope\[wandb\]"):
        choose_sinks("wandb", folder, environ={})
    with pytest.warns(RuntimeWarning, match=r"stepscope\[wandb\]"):
        chosen = choose_sinks(["wandb", "local"], folder, missing="local", environ={})
    assert types(chosen) == ["local"]
    with pytest.warns(RuntimeWarning, match="local files"):
        assert types(choose_sinks("wandb", folder, environ={"STEPSCOPE_MISSING": "local"})) == ["local"]


def test_objects_pass_and_classes_do_not(folder):
    sink = MemorySink()
    assert choose_sinks([sink], folder, environ={}) == [sink]
    for wrong in (MemorySink, 7, None):
        with pytest.raises(SinkConfigError, match="is not a sink"):
            choose_sinks([wrong], folder, environ={})  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ([{"path": "x"}], "expected a list named 'sinks'"),
        ([{"type": 3}], "expected the name of a sink"),
        ({"sink": []}, "expected a list named 'sinks'"),
        ("missing.toml", "cannot read the sinks"),
        ([{"type": "local", "colour": "red"}], "no option 'colour'"),
        (["local:/x", {"type": "local", "path": "/x"}, {"type": "local", "target": "/y"}], None),
    ],
)
def test_wrong_configurations_say_what_is_expected(folder, spec, message):
    if message is None:
        assert types(choose_sinks(spec, folder, environ={})) == ["local", "local"]  # type: ignore[arg-type]
        return
    with pytest.raises(SinkConfigError, match=message):
        choose_sinks(spec, folder, environ={})  # type: ignore[arg-type]


def test_bad_variables_are_named(folder):
    with pytest.raises(SinkConfigError, match="STEPSCOPE_SINKS"):
        choose_sinks("local", folder, environ={"STEPSCOPE_SINKS": "[1"})
    with pytest.raises(SinkConfigError, match="missing is 'maybe'"):
        choose_sinks("local", folder, environ={"STEPSCOPE_MISSING": "maybe"})
    with pytest.raises(SinkConfigError, match="STEPSCOPE_PRIORITY is 'high'; expected lowest or same"):
        choose_sinks("local", folder, environ={"STEPSCOPE_PRIORITY": "high"})
