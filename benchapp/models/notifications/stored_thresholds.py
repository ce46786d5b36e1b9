"""Read the thresholds that subscriptions have stored."""

import structlog

from benchapp.catalog.thresholds import BadThreshold, Threshold, parse_threshold

log = structlog.get_logger(__name__)


def read_stored_threshold(text: str) -> Threshold | None:
    """Return a stored threshold; None, with a log line, if it is no longer valid: it must not stop detection."""
    try:
        return parse_threshold(text)
    except BadThreshold as error:
        log.warning("stored_threshold.unreadable", threshold=text, error=str(error)[:200])
        return None
