"""A real S3 endpoint on 127.0.0.1 (moto's server), behind a proxy that does faults to its connections."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers import free_port, serving
from tcp_proxy import Fault, TcpProxy, proxy_before

BUCKET = "bucket"
FAULTS = {
    "refuse": Fault(closes=True),
    "busy": Fault(status="503 Slow Down"),
    "hole": Fault(black_hole=True),
    "cut": Fault(closes=True, after_bytes=20_000),
    "stall": Fault(black_hole=True, after_bytes=20_000),
}


@dataclass(frozen=True)
class S3:
    """The endpoint. ``variables`` are the environment with which a client finds it, through the proxy."""

    proxy: TcpProxy
    variables: dict[str, str]
    direct: Any
    """s3fs's file system, past the proxy."""


@contextmanager
def s3_endpoint(folder: Path) -> Iterator[S3]:
    """Starts the server and the proxy, with one empty bucket."""
    import s3fs

    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with serving(command, port=port, log=folder / "moto.log", path="/moto-api/") as url:
        keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "zanzibar-s3-4711"}
        direct = s3fs.S3FileSystem(
            endpoint_url=url,
            key=keys["AWS_ACCESS_KEY_ID"],
            secret=keys["AWS_SECRET_ACCESS_KEY"],
            skip_instance_cache=True,
            use_listings_cache=False,
        )
        direct.mkdir(BUCKET)
        with proxy_before(port) as proxy:
            variables = {
                **keys,
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_EC2_METADATA_DISABLED": "true",
                "AWS_ENDPOINT_URL": proxy.address,
                "no_proxy": os.environ.get("no_proxy", "") + ",127.0.0.1",
            }
            yield S3(proxy, variables, direct)
