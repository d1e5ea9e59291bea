"""W&B's SDK as it is installed, but for the names in its messages: for our sink an SDK of an unknown format."""

import importlib.util
from pathlib import Path


def changed_wandb(folder: Path, old: str, new: str) -> Path:
    """Makes a folder for PYTHONPATH that holds the SDK by links, with ``old`` replaced in the generated messages.

    A name must stay as long as it is, since lengths stand before it. Where the SDK's Python does not use it, as none
    of the header's, the SDK works as before.
    """
    spec = importlib.util.find_spec("wandb")
    assert spec is not None
    assert spec.origin is not None
    package = folder / "wandb"
    _link(Path(spec.origin).parent, package, apart=("proto",))
    _link(Path(spec.origin).parent / "proto", package / "proto", apart=("v5", "v6", "v7"))
    for version in (Path(spec.origin).parent / "proto").glob("v*"):
        _link(version, package / "proto" / version.name, apart=("wandb_internal_pb2.py",))
        text = (version / "wandb_internal_pb2.py").read_text()
        assert old in text
        (package / "proto" / version.name / "wandb_internal_pb2.py").write_text(text.replace(old, new))
    return folder


def _link(source: Path, target: Path, apart: tuple[str, ...]) -> None:
    target.mkdir(parents=True)
    for entry in source.iterdir():
        if entry.name not in (*apart, "__pycache__"):
            (target / entry.name).symlink_to(entry)
