"""Pictures, pages of HTML and tables as files of an offline W&B run, and W&B artifacts, as its SDK makes them.

Formats as wandb 0.31 has them: sdk/data_types/base_types/media.py, table.py, artifacts/artifact_manifest_v1.py.
"""

import base64
import hashlib
import json
import os
import re
import zlib
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from tracker_adapters.atomic_files import put_on_disk
from tracker_adapters.safe_files import make_folders, open_file, write_file
from tracker_adapters.sinks.wandb import records
from tracker_adapters.sinks.wandb.rows import Cells, HtmlPage, Picture, TrackedFile

_NOT_IN_ARTIFACT_NAMES = re.compile(r"[^a-zA-Z0-9_.-]")
_ANY_OR_NONE = {"wb_type": "union", "params": {"allowed_types": [{"wb_type": "any"}, {"wb_type": "none"}]}}


class Media:
    """Writes the files of one run's folder.

    Args:
        folder: The W&B run's folder.
        place: ``id``, ``entity`` and ``project`` of the W&B run.
        owner: The id of our run, from which ids are made that must be like no other's.
    """

    def __init__(self, folder: Path, place: Mapping[str, str | None], owner: str) -> None:
        self._folder = folder
        self._place = place
        self._owner = owner
        self._unsynced: set[Path] = set()

    def write(self, key: str, row: int, value: Picture | HtmlPage | Cells) -> tuple[dict[str, Any], list[bytes]]:
        """Writes the file of one value; returns the value's JSON, and the records to stand before its row."""
        match value:
            case Picture():
                about = {"format": "png", "width": value.width, "height": value.height, "caption": value.caption}
                return self._file("image-file", f"images/{key}_{row}", ".png", value.png, about)
            case HtmlPage():
                return self._file("html-file", f"html/{key}_{row}", ".html", value.text.encode(), {})
            case Cells():
                return self._table(key, row, value)

    def artifact(self, tracked: TrackedFile) -> bytes:
        """Returns the record of a page or file, which stays where it is."""
        path = tracked.source.path
        with open_file(path.parent, path.name) as stream:
            md5 = hashlib.file_digest(cast("BufferedReader", stream), "md5").digest()
        entry = {"path": tracked.filename, "size": tracked.source.size, "local_path": str(tracked.source.path)}
        # Stored files never change, so W&B needs no copy of its own.
        kept = entry | {"digest": _base64(md5), "skip_cache": True}
        return self._artifact(tracked.source.kind, tracked.name, json.dumps(tracked.metadata), kept)

    def sync(self) -> None:
        """Puts every file that was written on the disk."""
        for path in self._unsynced:
            put_on_disk(path)
        self._unsynced.clear()

    def _file(
        self, kind: str, stem: str, extension: str, content: bytes, about: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[bytes]]:
        digest = hashlib.sha256(content).hexdigest()
        path = f"media/{stem}_{digest[:20]}{extension}"
        self._write(f"files/{path}", content)
        value = {"_type": kind, "sha256": digest, "size": len(content), "path": path, **about}
        return value, [records.files([path])]

    def _table(self, key: str, row: int, cells: Cells) -> tuple[dict[str, Any], list[bytes]]:
        data = {"columns": list(cells.columns), "data": [list(line) for line in cells.rows]}
        size = {"ncols": len(cells.columns), "nrows": len(cells.rows), "log_mode": "IMMUTABLE"}
        types = {"wb_type": "typedDict", "params": {"type_map": dict.fromkeys(cells.columns, _ANY_OR_NONE)}}
        whole = json.dumps({"_type": "table", "column_types": types, **data, **size}, sort_keys=True).encode()
        staged = self._write(f"tables/{hashlib.sha256(whole).hexdigest()[:32]}.table.json", whole)
        digest = _base64(hashlib.md5(whole, usedforsecurity=False).digest())
        entry = {"path": f"{key}.table.json", "digest": digest, "size": len(whole), "local_path": str(staged)}
        name = _table_name(f"run-{self._place['id']}-{key}")
        record = self._artifact("run_table", name, None, entry | {"skip_cache": False})
        client, sequence = self._client_ids(name, digest)
        links = {
            "artifact_path": f"wandb-client-artifact://{client}/{key}.table.json",
            "_latest_artifact_path": f"wandb-client-artifact://{sequence}:latest/{key}.table.json",
        }
        content = records.json_text(data).encode()
        value, files = self._file("table-file", f"table/{key}_{row}", ".table.json", content, links | size)
        return value, [record, *files]

    def _artifact(self, kind: str, name: str, metadata: str | None, entry: Mapping[str, Any]) -> bytes:
        client, sequence = self._client_ids(name, entry["digest"])
        manifest = f"wandb-artifact-manifest-v1\n{entry['path']}:{entry['digest']}\n".encode()
        about = {
            "type": kind,
            "name": name,
            "digest": hashlib.md5(manifest, usedforsecurity=False).hexdigest(),
            "metadata": metadata or "",
            "client_id": client,
            "sequence_client_id": sequence,
        }
        return records.artifact(self._place, about, entry)

    def _client_ids(self, name: str, digest: str) -> tuple[str, str]:
        """Ids of an artifact and of its sequence, 128 characters each; the SDK draws them at random."""
        sequence = hashlib.sha512(f"{self._owner}\n{self._place['id']}\n{name}".encode()).hexdigest()
        return hashlib.sha512(f"{sequence}\n{digest}".encode()).hexdigest(), sequence

    def _write(self, relative: str, content: bytes) -> Path:
        # The same bytes in every locale: a name's characters may be none of the locale's.
        relative = os.fsdecode(relative.encode())
        path = self._folder / relative
        make_folders(self._folder, path.parent.relative_to(self._folder))
        write_file(self._folder, relative, content)
        self._unsynced |= {path, path.parent}
        return path


def _table_name(name: str) -> str:
    """As the SDK makes it (sdk/artifacts/_internal_artifact.py): a checksum keeps names apart that lost characters."""
    plain = _NOT_IN_ARTIFACT_NAMES.sub("", name)
    checksum = zlib.crc32(name.encode()).to_bytes(4, "big")
    return name if plain == name else f"{plain}-{base64.urlsafe_b64encode(checksum).rstrip(b'=').decode()}"


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
