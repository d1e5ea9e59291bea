"""Which installed SDKs take the files that the sink writes: told by their messages, without an import of the SDK."""

import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from tracker_adapters.sinks.wandb.sdk_format import why_unknown

INSTALLED = version("wandb")


def generated():
    """The newest form of the installed SDK's messages."""
    spec = find_spec("wandb")
    assert spec is not None
    assert spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    return sorted(package.glob("proto/v*/wandb_internal_pb2.py"))[-1].read_text()


def reason(folder, messages, called):
    """What is said of an SDK with these messages that calls itself ``called``."""
    (folder / "wandb" / "proto" / "v9").mkdir(parents=True)
    (folder / "wandb" / "__init__.py").write_text("raise SystemExit('imported')")
    (folder / f"wandb-{called}.dist-info").mkdir()
    (folder / f"wandb-{called}.dist-info" / "METADATA").write_text(f"Name: wandb\nVersion: {called}\n")
    if messages is not None:
        (folder / "wandb" / "proto" / "v9" / "wandb_internal_pb2.py").write_text(messages)
    with pytest.MonkeyPatch.context() as patched:
        for name in [name for name in sys.modules if name.split(".")[0] == "wandb"]:
            patched.delitem(sys.modules, name)
        patched.syspath_prepend(folder)
        found = why_unknown()
        assert not any(name.split(".")[0] == "wandb" for name in sys.modules)
    return found


@pytest.mark.parametrize("called", [INSTALLED, "0.99.1", "1.0.0rc1"])
def test_one_with_the_same_messages_is_known(tmp_path, called):
    assert reason(tmp_path, generated(), called) == ""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r"skip_cache\x18\x08", r"skip_cachf\x18\x08", "ArtifactManifestEntry.skip_cache is missing in"),
        (r"local_path\x18\x06", r"local_path\x18\x07", "ArtifactManifestEntry.local_path is string 7 in"),
        (r"glob_name\x18\x02 \x01(\t", r"glob_name\x18\x02 \x01(\x0c", "MetricRecord.glob_name is bytes 2 in"),
    ],
    ids=["name", "number", "type"],
)
def test_one_with_another_field_is_unknown(tmp_path, old, new, message):
    assert old in generated()
    assert message in reason(tmp_path, generated().replace(old, new), "0.99.1")


def test_an_older_one_is_unknown_with_the_same_messages(tmp_path):
    assert reason(tmp_path, generated(), "0.30.9") == "wandb 0.30.9 is older than 0.31"


@pytest.mark.parametrize(
    "messages", [None, "no code (", "x = 1", "f.AddSerializedFile(b'\\xff')", "f.AddSerializedFile(1)"]
)
def test_what_cannot_be_read_is_known_by_its_version_alone(tmp_path, messages):
    assert reason(tmp_path / "tested", messages, "0.31.7") == ""
    assert "the format of wandb 0.32.0 cannot be read" in reason(tmp_path / "newer", messages, "0.32.0")
