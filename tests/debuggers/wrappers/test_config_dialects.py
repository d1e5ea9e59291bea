"""A class and its arguments are read from four dialects, and from OmegaConf's containers."""

import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters.values.plain import resolved

from debuggers.errors import DebuggerConfigError
from debuggers.wrappers.config_dialects import class_and_arguments


class Target:
    pass


keywords = st.dictionaries(
    st.from_regex(r"[a-z]{1,8}", fullmatch=True).filter(lambda key: key not in ("class", "type")), st.integers()
)


@given(keywords)
def test_all_dialects_say_the_same(arguments):
    for config in (
        {"class": Target, "args": arguments},
        {"type": Target, **arguments},
        {"_target_": Target, **arguments},
        {"class_path": Target, "init_args": arguments},
    ):
        before = dict(config)
        assert class_and_arguments("it", config) == (Target, arguments)
        assert config == before


@pytest.mark.parametrize("key", ["class", "type", "_target_", "class_path"])
def test_arguments_may_be_left_out_and_classes_named(key):
    assert class_and_arguments("it", {key: "package.module.Target"}) == ("package.module.Target", {})


def test_empty_arguments_are_none():
    assert class_and_arguments("it", {"class": Target, "args": None}) == (Target, {})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"args": {}}, r"it: \{'args': \{\}\} has no 'class'; expected \{'class': C, 'args'"),
        ("Target", "it: 'Target' has no 'class'"),
        (None, "it: None has no 'class'"),
        ({"class": Target, "type": Target}, "has both 'class' and 'type'"),
        ({"class": Target, "arg": {"a": 1}}, "unexpected 'arg' beside 'class'; expected only 'args'"),
        ({"class_path": "a.B", "args": {}}, "unexpected 'args' beside 'class_path'; expected only 'init_args'"),
        ({"class": Target, "args": [1, 2]}, r"'args' is \[1, 2\]; expected a dict of keyword arguments"),
    ],
)
def test_another_form_is_an_error(config, message):
    with pytest.raises(DebuggerConfigError, match=message):
        class_and_arguments("it", config)


def test_arguments_are_handed_on_themselves():
    shared = [1, 2]
    _, arguments = class_and_arguments("it", {"class": Target, "args": {"values": shared}})
    assert arguments["values"] is shared


@pytest.fixture
def omegaconf(monkeypatch):
    """The part of omegaconf 2.3 that matters here, where the package itself is not installed."""
    try:
        import omegaconf
    except ImportError:
        pass
    else:
        return omegaconf
    module = types.ModuleType("omegaconf")

    class Container:
        __module__ = "omegaconf.basecontainer"

        def __init__(self, content):
            self.content = content

    class OmegaConf:
        @staticmethod
        def create(content):
            return Container(content)

        @staticmethod
        def to_container(cfg, *, resolve=False, throw_on_missing=False, enum_to_str=False, structured_config_mode=None):
            assert isinstance(cfg, Container)
            assert resolve
            assert throw_on_missing
            return cfg.content

    module.OmegaConf = OmegaConf
    monkeypatch.setitem(sys.modules, "omegaconf", module)
    return module


def test_omegaconf_containers_become_plain(omegaconf):
    create = omegaconf.OmegaConf.create
    assert resolved(create({"a": [1, {"b": None}]})) == {"a": [1, {"b": None}]}
    assert type(resolved(create({"a": 1}))) is dict
    for config in (
        create({"_target_": "package.Target", "names": ["a", "b"]}),
        {"type": "package.Target", "names": create(["a", "b"])},
        {"class": "package.Target", "args": create({"names": ["a", "b"]})},
    ):
        cls, arguments = class_and_arguments("it", config)
        assert (cls, arguments) == ("package.Target", {"names": ["a", "b"]})
        assert type(arguments["names"]) is list
