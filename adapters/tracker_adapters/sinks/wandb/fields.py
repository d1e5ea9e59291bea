"""The part of wandb/proto/wandb_internal.proto that the sink writes, and its encoding.

Old files must stay readable to ``wandb sync``, so W&B cannot change the numbers; ``sdk_format`` compares them with
those of the installed SDK.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from tracker_adapters.formats.protobuf import delimited, varint

_PROTO = """
message Record {
  HistoryRecord history = 2; SummaryRecord summary = 3; ConfigRecord config = 5; FilesRecord files = 6;
  ArtifactRecord artifact = 8;
  MetricRecord metric = 12; RunRecord run = 17; RunExitRecord exit = 18; HeaderRecord header = 21;
}
message HistoryRecord { repeated HistoryItem item = 1; HistoryStep step = 2; }
message HistoryItem { repeated string nested_key = 2; string value_json = 16; }
message HistoryStep { int64 num = 1; }
message SummaryRecord { repeated SummaryItem update = 1; }
message SummaryItem { repeated string nested_key = 2; string value_json = 16; }
message FilesRecord { repeated FilesItem files = 1; }
message FilesItem { string path = 1; }
message ArtifactRecord {
  string run_id = 1; string project = 2; string entity = 3; string type = 4; string name = 5; string digest = 6;
  string metadata = 8; repeated string aliases = 11; ArtifactManifest manifest = 12; bool finalize = 14;
  string client_id = 15; string sequence_client_id = 16; string digest_algorithm = 20;
}
message ArtifactManifest {
  int32 version = 1; string storage_policy = 2; repeated StoragePolicyConfigItem storage_policy_config = 3;
  repeated ArtifactManifestEntry contents = 4;
}
message StoragePolicyConfigItem { string key = 1; string value_json = 2; }
message ArtifactManifestEntry {
  string path = 1; string digest = 2; int64 size = 4; string local_path = 6; bool skip_cache = 8;
}
message MetricRecord { string glob_name = 2; string step_metric = 4; MetricOptions options = 6; }
message MetricOptions { bool step_sync = 1; bool defined = 3; }
message RunRecord {
  string run_id = 1; string entity = 2; string project = 3; ConfigRecord config = 4; string run_group = 6;
  string display_name = 8; string notes = 9; repeated string tags = 10; string host = 13;
  google.protobuf.Timestamp start_time = 17; GitRepoRecord git = 21;
}
message GitRepoRecord { string commit = 2; }
message ConfigRecord { repeated ConfigItem update = 1; }
message ConfigItem { string key = 1; repeated string nested_key = 2; string value_json = 16; }
message RunExitRecord { int32 exit_code = 1; int32 runtime = 2; }
message HeaderRecord { VersionInfo version_info = 1; }
message VersionInfo { string producer = 1; string min_consumer = 2; }
"""


class Field(NamedTuple):
    """A field of a message: its number, its type as the .proto file has it, and whether it is repeated."""

    number: int
    type: str
    repeated: bool


Value: TypeAlias = str | bytes | int

MESSAGES: dict[str, dict[str, Field]] = {
    message: {
        name: Field(int(number), kind, bool(repeated))
        for repeated, kind, name, number in re.findall(r"(repeated )?([\w.]+) (\w+) = (\d+);", body)
    }
    for message, body in re.findall(r"message (\w+) \{(.*?)\}", _PROTO, re.DOTALL)
}
_TIMESTAMP = {"seconds": Field(1, "int64", False), "nanos": Field(2, "int32", False)}  # google/protobuf/timestamp.proto


def message(kind: str, **values: Value | Sequence[Value] | None) -> bytes:
    """Returns an encoded message.

    Args:
        kind: A name in ``MESSAGES``, or ``Timestamp``.
        values: By the names of fields: bytes of an inner message, a text, a number from 0 on, or a list or tuple of
            these for a field that is repeated. Nothing is written for a text that is empty, for zero, False and None.
    """
    fields = _TIMESTAMP if kind == "Timestamp" else MESSAGES[kind]
    return b"".join(
        field(fields[name].number, value)
        for name, given in values.items()
        for value in (given if isinstance(given, (list, tuple)) else (given,))
        if value or isinstance(value, bytes)
    )


def field(number: int, value: Value) -> bytes:
    """Returns one field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return delimited(number, value.encode() if isinstance(value, str) else value)
