"""A worker's sign of life for a container's health check: `celery worker --include benchapp.embedded.heartbeat`.

The main process of a worker touches BENCHAPP_HEARTBEAT_FILE every 2 s, as long as its loop turns and has a broker.
Asking the worker over the broker is no way: its remote control is off.
"""

import os
from pathlib import Path
from typing import Any

from celery.signals import heartbeat_sent


def touch_heartbeat(**arguments: Any) -> None:
    """Note the time of this heartbeat."""
    file = os.environ.get("BENCHAPP_HEARTBEAT_FILE")
    if file:
        Path(file).touch()


heartbeat_sent.connect(touch_heartbeat)
