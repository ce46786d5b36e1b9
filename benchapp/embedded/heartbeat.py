"""Worker heartbeat for a container health check: `celery worker --include benchapp.embedded.heartbeat`.

The main process of a worker touches BENCHAPP_HEARTBEAT_FILE every 2 s while its event loop runs with a broker
connection. Celery's ping is not available, because remote control is disabled.
"""

import os
from pathlib import Path
from typing import Any

from celery.signals import heartbeat_sent


def touch_heartbeat(**arguments: Any) -> None:
    """Record the time of this heartbeat."""
    file = os.environ.get("BENCHAPP_HEARTBEAT_FILE")
    if file:
        Path(file).touch()


heartbeat_sent.connect(touch_heartbeat)
