"""Posts a run's notifications to the address that an environment variable holds."""

import json
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from tracker_adapters.artifacts import KINDS, RunInfo, RunStatus, Text
from tracker_adapters.sink import Batch, SinkConfigError, SinkError, Unshown, checked_options
from tracker_adapters.sinks.webhook.posting import check_address, post

VARIABLE = "STEPSCOPE_WEBHOOK_URL"
_PLACE = "/notifications/"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_log = logging.getLogger(__name__)


class WebhookSink:
    """Posts each text ``notifications/<kind>``, which the action ``notify`` of a finding emits, as one JSON object.

    The object has the finding's fields, the name of the run, and a sentence under ``text``, which chat services show.
    Everything else is taken and not shown. The address is in an environment variable, of which only the name is stored.
    A request that fails is repeated by the delivery, as for every sink. A notification is posted at least once; its
    header ``Idempotency-Key`` is the same each time.

    Args:
        target: The name of the environment variable.
    """

    kinds: ClassVar[frozenset[str]] = frozenset(KINDS)
    _posted: ClassVar[dict[tuple[str, str], int]] = {}
    """The last sequence number that this process has posted, by variable and run: a later sink skips what it had."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._address = ""
        self._info: RunInfo | None = None
        self._seq = 0

    @classmethod
    def resolve(cls, options: Mapping[str, Any], run_folder: Path) -> dict[str, Any]:
        """Completes ``target``, the name of an environment variable; ``STEPSCOPE_WEBHOOK_URL`` by default.

        Raises:
            SinkConfigError: When the variable is not set, or holds no address of http or https.
        """
        target = checked_options("webhook", options, {"target": str}).get("target", VARIABLE)
        if not _NAME.fullmatch(target):  # perhaps the address itself, which may be a secret
            raise SinkConfigError(
                "sink 'webhook': option 'target' names no environment variable (it is not shown here); expected one "
                f"that holds the address, such as 'webhook:{VARIABLE}'"
            )
        check_address(target, os.environ.get(target, ""))
        return {"target": target}

    @classmethod
    def look(cls, options: Mapping[str, Any]) -> str:
        """Returns where notifications go."""
        return f"the address in ${options['target']}"

    def open(self, info: RunInfo, token: bytes | None) -> None:
        """Reads the variable; what was posted stays posted.

        Raises:
            SinkConfigError: When the variable is not set here, or holds no address.
        """
        address = os.environ.get(self.target, "")
        check_address(self.target, address)
        self._info, self._address = info, address
        self._seq = max(int(token or 0), self._posted.get((self.target, info.id), 0))

    def write(self, batch: Batch) -> Unshown:
        """Posts the notifications of a batch, in order.

        Returns:
            ``refused``: those that the address refuses for what they are.

        Raises:
            SinkUnavailable: When it cannot be reached, or answers that it cannot take any now.
        """
        info, refused = self._opened(), 0
        for seq, artifact in batch.singles():
            if seq <= self._seq or not isinstance(artifact, Text) or _PLACE not in f"/{artifact.name}":
                continue
            status = post(self._address, _body(info, artifact), key=f"{info.id}-{seq}", variable=self.target)
            if status:
                _log.warning("sink webhook: %s was refused with status %d", artifact.name, status)
                refused += 1
            self._seq = self._posted[self.target, info.id] = seq
        return {"refused": refused} if refused else {}

    def flush(self) -> bytes:
        """Returns the last sequence number that was posted."""
        return str(self._seq).encode()

    def finish(self, status: RunStatus) -> None:
        """Posts nothing."""

    def close(self) -> None:
        """Forgets the address."""
        self._address = ""

    def _opened(self) -> RunInfo:
        if self._info is None or not self._address:
            raise SinkError("the webhook sink is not open")
        return self._info


def _body(info: RunInfo, text: Text) -> bytes:
    """The finding with what tells it from those of other runs; a text that is no JSON object is posted as it is."""
    try:
        content = json.loads(text.text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        content = {"message": text.text}
    kind = text.name.rpartition("/")[2]
    sentence = f"{info.name}: {kind}: {content.get('message', '')}"
    scope = f"/{text.name}".partition(_PLACE)[0].lstrip("/")
    return json.dumps({**content, "run": info.name, "scope": scope, "text": sentence}).encode()
