"""What every test runs with: the servers, no real AWS account, and a Python and Java for Spark."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

from hypothesis import HealthCheck, settings

from shardline.errors import ConfigurationError
from shardline.spark.java import java_home

pytest_plugins = ["tests.servers.fixtures"]

# In CI the same examples every time, so that a failure belongs to the change that it appears on;
# at home new ones, so that they find what nobody thought of. Shared machines are slow: no deadline.
settings.register_profile("home", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("home"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "home")

if os.environ.get("SHARDLINE_TEST_AWS") != "1":
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }

# A shell without job control lets what it starts in the background ignore SIGINT, and so would all
# that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["PYSPARK_PYTHON"] = sys.executable
with suppress(ConfigurationError):  # Tests that need Java say so themselves.
    os.environ["JAVA_HOME"] = str(java_home())
