"""A driver program that can be killed: it runs a consumer on a cluster until its end.

python -m tests.cluster.driver MASTER ENDPOINT STREAM LEASE_TABLE FOLDER
"""

from __future__ import annotations

import sys

from shardline.spark import consume
from shardline.spark.session import session
from tests.spark.consumer_fixtures import LEASE_SECONDS
from tests.spark.recording import Recording


def main(master: str, endpoint_url: str, stream: str, lease_table: str, folder: str) -> None:
    spark = session(
        "driver",
        master,
        spark__driver__host="127.0.0.1",
        spark__cores__max="2",
        spark__executor__cores="1",
        spark__executor__memory="512m",
    )
    run = consume(
        spark,
        Recording(folder),
        stream=f"kinesis://{stream}",
        app=f"app of {stream}",
        lease_table=lease_table,
        endpoint_url=endpoint_url,
        lease_seconds=LEASE_SECONDS,
        tasks=2,
    )
    run.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
