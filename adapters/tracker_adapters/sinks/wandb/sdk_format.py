"""Tells whether the installed SDK reads the files that the sink writes, without importing the SDK."""

import ast
import importlib.util
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tracker_adapters.sinks.wandb.fields import MESSAGES, Field

TESTED = (0, 31)
"""Older versions lose the x axis of our metrics: their ``wandb sync`` expands no pattern of names."""


def why_unknown() -> str:
    """Says why the installed SDK may not take the sink's files; empty when it does, or where none is installed.

    An SDK from ``TESTED`` on takes them when every message that we write has the same fields there, by name, number and
    type. Where that cannot be read, only ``TESTED`` itself is taken for known.
    """
    spec = importlib.util.find_spec("wandb")
    if spec is None or not spec.submodule_search_locations:
        return ""
    try:
        installed = version("wandb")
    except PackageNotFoundError:
        installed = ""
    numbers = tuple(map(int, re.findall(r"\d+", installed)[:2]))
    if numbers and numbers < TESTED:
        return f"wandb {installed} is older than {'.'.join(map(str, TESTED))}"
    try:
        theirs = _fields_in(Path(spec.submodule_search_locations[0]))
    except (OSError, ImportError, ValueError, SyntaxError) as error:
        return "" if numbers == TESTED else f"the format of wandb {installed} cannot be read ({error})"
    for message, fields in MESSAGES.items():
        for name, field in fields.items():
            found = theirs.get(message, {}).get(name)
            if found != field:
                there = f"{found.type} {found.number}" if found else "missing"
                ours = f"{field.type} {field.number}"
                return f"the field {message}.{name} is {there} in wandb {installed}; expected {ours}"
    return ""


def note() -> str:
    """Returns what a user should know of the installed SDK; empty when there is nothing to say."""
    reason = why_unknown()
    return f"offline runs are written by W&B's SDK, which keeps no durable log: {reason}" if reason else ""


def _fields_in(package: Path) -> dict[str, dict[str, Field]]:
    """Returns the fields of W&B's messages, read from the text of its generated code.

    Raises:
        ImportError: Where protobuf is not installed.
        ValueError: For code of another form. OSError and SyntaxError likewise.
    """
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.message import DecodeError

    # Each version of protobuf has a folder of its own, made from the same definitions.
    generated = sorted(package.glob("proto/v*/wandb_internal_pb2.py"))
    if not generated:
        raise ValueError("it has no wandb_internal_pb2.py")
    calls = (
        node for node in ast.walk(ast.parse(generated[-1].read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
    )
    described = [call.args[0] for call in calls if getattr(call.func, "attr", "") == "AddSerializedFile"]
    if len(described) != 1:
        raise ValueError(f"its wandb_internal_pb2.py describes {len(described)} files; expected 1")
    try:
        file = FileDescriptorProto.FromString(ast.literal_eval(described[0]))
    except (DecodeError, TypeError) as error:
        raise ValueError(f"its wandb_internal_pb2.py cannot be decoded: {error}") from error
    plain = {number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()}
    return {
        message.name: {
            field.name: Field(
                field.number,
                field.type_name.removeprefix(".wandb_internal.").removeprefix(".") or plain[field.type],
                field.label == FieldDescriptorProto.LABEL_REPEATED,
            )
            for field in message.field
        }
        for message in file.message_type
    }
