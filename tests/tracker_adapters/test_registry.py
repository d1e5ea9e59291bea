"""Sinks by name: found without importing, loaded without their SDK, missing ones explained."""

import os
import subprocess
import sys

import pytest
from tracker_adapters import registry
from tracker_adapters.artifacts import KINDS
from tracker_adapters.errors import MissingPackageError, SinkConfigError
from tracker_adapters.registry import BUILT_IN, SinkSpec, find_sink, known_sinks, load_sink
from tracker_adapters.sink import checked_options
from tracker_adapters.sinks.local import LocalSink
from tracker_adapters.testing import MemorySink


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """An installed package that offers sinks under the entry point group."""
    metadata = tmp_path / "someones_sinks-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: someones-sinks\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[stepscope.sinks]\n"
        "memory = tracker_adapters.testing:MemorySink\n"
        "local = nowhere:Local\n"
        "broken = no_such_module_anywhere:Sink\n"
        "lacking = tracker_adapters.testing:NoSuchSink\n"
        "other = pathlib:Path\n"
        "raising = raising_at_import:Sink\n"
        "no-module =\n"
        "-- rm, [bold] = tracker_adapters.testing:MemorySink\n"
    )
    (tmp_path / "raising_at_import.py").write_text("raise RuntimeError('no licence')")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_the_built_in_sinks_are_these():
    assert list(BUILT_IN) == ["local", "tensorboard", "mlflow", "wandb", "webhook"]
    assert load_sink("local") is LocalSink


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_sink_states_what_it_shows(name):
    assert {"scalar"} <= load_sink(name).kinds <= set(KINDS)


def test_loading_and_resolving_imports_no_tracker_and_no_torch(tmp_path):
    """In the training process: an SDK there would bring threads, signal handlers and seconds of import time."""
    program = (
        "import sys, pathlib; from tracker_adapters.registry import BUILT_IN, load_sink\n"
        "for name in BUILT_IN: cls = load_sink(name); cls.look(cls.resolve({}, pathlib.Path(sys.argv[1])))\n"
        "print(*sorted({'mlflow', 'wandb', 'tensorboard', 'sqlalchemy', 'matplotlib', 'torch'} & sys.modules.keys()))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env=os.environ | {"STEPSCOPE_WEBHOOK_URL": "http://127.0.0.1:9/"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert result.stdout.split() == []


def test_an_installed_package_can_offer_a_sink_but_not_replace_ours(plugin):
    assert load_sink("memory") is MemorySink
    assert known_sinks()["local"] == BUILT_IN["local"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken", r"sink 'broken' of someones-sinks 1.0: cannot load no_such_module_anywhere:Sink: No module named"),
        ("lacking", r"sink 'lacking' of someones-sinks 1.0: cannot load tracker_adapters.testing:NoSuchSink"),
        (
            "other",
            r"sink 'other' of .*: pathlib:Path is not a Sink: it lacks kinds, look, write, flush, finish, close",
        ),
        ("raising", r"sink 'raising' of .*: cannot load raising_at_import:Sink: RuntimeError\('no licence'\)"),
        ("no-module", r"sink 'no-module' of .*: cannot load"),
    ],
)
def test_an_entry_point_that_leads_to_no_sink_is_explained(plugin, name, message):
    with pytest.raises(SinkConfigError, match=message):
        load_sink(name)


def test_broken_and_odd_entry_points_leave_the_others_alone(plugin):
    assert set(known_sinks()) == {*BUILT_IN, "memory", "broken", "lacking", "other", "raising", "no-module"}
    assert load_sink("memory") is MemorySink


@pytest.mark.parametrize(("name", "hint"), [("tensorbord", "did you mean 'tensorboard'"), ("zzz", "; known sinks are")])
def test_an_unknown_name_is_answered_with_the_known_ones(name, hint):
    with pytest.raises(SinkConfigError, match=rf"unknown sink '{name}'.*{hint}") as caught:
        find_sink(name)
    assert all(known in str(caught.value) for known in BUILT_IN)


@pytest.mark.parametrize(
    ("extra", "install"),
    [("wandb", r"pip install 'stepscope\[wandb\]'"), (None, "pip install no_such_package_anywhere")],
)
def test_a_missing_package_is_named_with_what_to_install(monkeypatch, extra, install):
    spec = SinkSpec("nowhere:Sink", ("json", "no_such_package_anywhere"), extra)
    monkeypatch.setitem(registry.BUILT_IN, "wandb", spec)
    with pytest.raises(MissingPackageError, match=f"^sink 'wandb' needs no_such_package_anywhere, .*: {install}$"):
        load_sink("wandb")


# Options of sinks.


def test_options_are_checked_by_name_and_type(tmp_path):
    allowed = {"target": str, "limit": int, "live": bool, "wait": float, "mode": bool | str}
    given = {"target": tmp_path, "limit": 3, "live": True, "wait": 0.5, "mode": False}
    assert checked_options("s", given, allowed) == given | {"target": str(tmp_path)}
    assert checked_options("s", {"target": None}, allowed) == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"colour": "red"}, r"sink 's' has no option 'colour'; expected one of limit, mode, target, wait"),
        ({"limit": "3"}, r"sink 's': option 'limit' is '3'; expected an integer$"),
        ({"limit": True}, r"option 'limit' is True; expected an integer$"),
        ({"wait": True}, r"option 'wait' is True; expected a number$"),
        ({"target": 5}, r"option 'target' is 5; expected a str$"),
        ({"mode": 5}, r"option 'mode' is 5; expected True or False or a str$"),
    ],
)
def test_a_wrong_option_is_named_with_what_was_expected(given, message):
    with pytest.raises(SinkConfigError, match=message):
        checked_options("s", given, {"target": str, "limit": int, "wait": float, "mode": bool | str})
