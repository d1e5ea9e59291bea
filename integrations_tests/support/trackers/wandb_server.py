"""As much of W&B's server as ``wandb sync`` needs: keeps what a sync uploads, to be compared.

There is no server to install. What the client asks for is in core/api/graphql of its repository (wandb 0.31).
"""

import gzip
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

API_KEY = "k" * 40


@dataclass
class UploadedRun:
    """A run as the server has it after a sync."""

    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    exit_code: int | None = None


@dataclass
class Server:
    """What was uploaded: runs by id, and each W&B artifact's type, name, digest and files."""

    url: str = ""
    runs: dict[str, UploadedRun] = field(default_factory=dict)
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    """Operations that this server does not know; it answered them with nothing."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def sync(self, folder: Path, *options: str) -> str:
        """Runs ``wandb sync`` on a folder; returns what it printed."""
        home = folder.parent / "home_of_sync"
        home.mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "wandb", "sync", *options, str(folder)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=home,
            env={name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
            | {
                "WANDB_BASE_URL": self.url,
                "WANDB_API_KEY": API_KEY,
                "HOME": str(home),
                "WANDB_ERROR_REPORTING": "false",
            },
        )
        return done.stdout + done.stderr

    def answer(self, operation: str, variables: dict[str, Any]) -> dict[str, Any]:
        """Answers one GraphQL request."""
        entity = {"id": "e", "name": "someone", "organization": None}
        if operation == "UpsertBucket":
            run_id = variables["name"]
            run = self.runs.setdefault(run_id, UploadedRun())
            run.about |= {key: value for key, value in variables.items() if value is not None}
            project = {"id": "p", "name": variables.get("project") or "p", "entity": entity}
            bucket = {
                "id": run_id, "name": run_id, "displayName": variables.get("displayName"), "description": "",
                "config": "{}", "sweepName": None, "project": project, "historyLineCount": len(run.history),
            }  # fmt: skip
            return {"upsertBucket": {"bucket": bucket, "inserted": True}}
        if operation == "CreateRunFiles":
            urls = [
                {"name": name, "uploadUrl": f"{self.url}/run_file/{variables['run']}/{name}"}
                for name in variables["files"]
            ]
            return {"createRunFiles": {"runID": variables["run"], "uploadHeaders": [], "files": urls}}
        if operation in ("CreateArtifactManifest", "UpdateArtifactManifest"):
            file = {"id": "m", "uploadUrl": f"{self.url}/manifest/{variables['digest']}", "uploadHeaders": []}
            return {operation[0].lower() + operation[1:]: {"artifactManifest": {"id": "m", "file": file}}}
        if operation == "CreateArtifactFiles":
            nodes = [
                {
                    "storagePath": f"path/{wanted['md5']}", "uploadUrl": f"{self.url}/content/{wanted['md5']}",
                    "uploadHeaders": [], "uploadMultipartUrls": None, "artifact": {"id": "a"},
                }
                for wanted in variables["input"]["artifactFiles"]
            ]  # fmt: skip
            return {"createArtifactFiles": {"files": {"edges": [{"node": node} for node in nodes]}}}
        if operation == "CommitArtifact":
            return {"commitArtifact": {"artifact": {"id": variables["artifactID"], "digest": ""}}}
        if operation == "CreateArtifact":
            self.artifacts.append(variables["input"])
            sequence = {"latestArtifact": None}
            made = {"id": f"a{len(self.artifacts)}", "state": "PENDING", "artifactSequence": sequence}
            return {"createArtifact": {"artifact": made}}
        if operation == "Viewer":
            return {
                "viewer": {"id": "v", "entity": "someone", "username": "someone", "teams": {"edges": []}, "flags": "{}"}
            }
        if operation in ("ServerInfo", "ServerFeaturesQuery"):
            return {"serverInfo": {"features": [], "cliVersionInfo": {"max_cli_version": "0.99.0"}}}
        if operation == "RunResumeStatus":
            run = self.runs[variables["name"]]
            lines = len(run.history)
            bucket = {
                "id": "r", "name": variables["name"], "displayName": "", "config": "{}", "tags": [], "notes": "",
                "summaryMetrics": json.dumps(run.summary), "logLineCount": 0, "historyLineCount": lines,
                "eventsLineCount": 0, "historyTail": json.dumps([json.dumps(line) for line in run.history[-1:]]),
                "eventsTail": "[]", "wandbConfig": '{"t": 1}',
            }  # fmt: skip
            return {"model": {"id": "p", "name": variables["project"], "entity": entity, "bucket": bucket}}
        if operation == "ArtifactType":
            return {"project": {"artifact": None, "artifactType": None}}
        self.unknown.append(operation)
        return {}

    def stream(self, run_id: str, sent: dict[str, Any]) -> None:
        """Takes one request of the file stream: lines of history at an offset, the last summary, the end."""
        run = self.runs.setdefault(run_id, UploadedRun())
        for name, chunk in sent.get("files", {}).items():
            lines = [json.loads(line) for line in chunk["content"]]
            if name == "wandb-history.jsonl":
                run.history[chunk["offset"] :] = lines
            elif name == "wandb-summary.json" and lines:
                run.summary |= lines[-1]
        if sent.get("complete"):
            run.exit_code = sent["exitcode"]


def _operation(query: str) -> str:
    return re.findall(r"(?:query|mutation)\s+(\w+)", query)[0]


@contextmanager
def wandb_server() -> Iterator[Server]:
    """Runs a server on 127.0.0.1."""
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self._body()
            with server.lock:
                if self.path == "/graphql":
                    self._send({"data": server.answer(_operation(body["query"]), body.get("variables") or {})})
                else:  # /files/<entity>/<project>/<run>/file_stream
                    server.stream(self.path.split("/")[4], body)
                    self._send({})

        def do_PUT(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            _, kind, rest = self.path.split("/", 2)
            with server.lock:
                if kind == "run_file":
                    run_id, name = rest.split("/", 1)
                    server.runs[run_id].files[name] = content
                else:
                    server.contents[rest] = content
            self._send({})

        def log_message(self, *_: object) -> None:
            """Stays silent."""

        def _body(self) -> Any:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                content = gzip.decompress(content)
            return json.loads(content)

        def _send(self, answer: Any) -> None:
            content = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{listening.server_address[1]}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
