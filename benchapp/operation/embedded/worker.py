"""The worker with beat of one machine: `python -m benchapp.operation.embedded.worker SCHEDULE`.

As `celery -A benchapp worker --beat --concurrency 1`, in 20 MiB less: beat is a thread of the parent, not a third
process, and Celery's command line, which loads a shell with line editing, is not imported.
"""

import logging
import sys
from typing import Any, Final

from celery.apps.worker import Worker
from celery.beat import EmbeddedService
from celery.worker.components import Beat

from benchapp.celery import app

OPTIONS: Final[dict[str, Any]] = {
    "pool": "prefork",
    "concurrency": 1,
    "loglevel": logging.WARNING,
    "without_gossip": True,
    "without_mingle": True,
    "without_heartbeat": True,
}
_BEAT: Final = "celery.worker.components:Beat"


class BeatThread(Beat):  # type: ignore[misc]
    """Beat in a thread, which publishes for a millisecond every 10 s; the pool forks only to replace a child."""

    # Celery orders the steps by name.
    name = _BEAT.replace(":", ".")

    def create(self, w: Any) -> Any:
        """Return the service of a worker."""
        w.beat = EmbeddedService(
            w.app, thread=True, schedule_filename=w.schedule_filename, scheduler_cls=w.scheduler
        )
        return w.beat


class EmbeddedWorker(Worker):  # type: ignore[misc]
    """Celery's worker with beat in a thread."""

    class Blueprint(Worker.Blueprint):  # type: ignore[misc]
        """The steps of a worker."""

        default_steps = (Worker.Blueprint.default_steps - {_BEAT}) | {BeatThread}


def main() -> int:
    """Run until a signal ends it; return the exit status."""
    worker = EmbeddedWorker(app=app, beat=True, schedule_filename=sys.argv[1], **OPTIONS)
    worker.start()
    status: int = worker.exitcode
    return status


if __name__ == "__main__":
    sys.exit(main())
