"""Forget notices that were settled long ago: the delivery log is kept for a while, not for ever.

A row is also the memory that something was told. It stays while that is needed: for an incident that is open, whose end
goes to those who heard its beginning; and for a silence that is not over, which would be told again. What was told of a
silence goes before the row that it ended, or its end would be told again.
"""

import time
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

log = structlog.get_logger(__name__)

# Half a second of locks on rows that nobody else writes any more.
_BATCH_SIZE: Final = 2000
_BUDGET_S: Final = 20.0
_FORGET: Final = """
DELETE FROM benchapp_notice WHERE id IN (
  SELECT notice.id FROM benchapp_notice AS notice
  LEFT JOIN benchapp_incident AS incident ON incident.id = notice.incident_id
  WHERE notice.settled_at < %(before)s AND notice.state <> 'waiting'
   AND (incident.id IS NULL OR incident.state = 'resolved' OR incident.merged_into_id IS NOT NULL)
   AND CASE
    WHEN notice.key LIKE 'host %% silent %%' AND notice.state <> 'dropped' THEN EXISTS (
     SELECT FROM benchapp_notice AS back WHERE back.subscription_id = notice.subscription_id
      AND back.key = replace(notice.key, ' silent ', ' back ') AND back.settled_at < %(before)s)
    WHEN notice.key LIKE 'host %% back %%' THEN NOT EXISTS (
     SELECT FROM benchapp_notice AS silent WHERE silent.subscription_id = notice.subscription_id
      AND silent.key = replace(notice.key, ' back ', ' silent '))
    ELSE TRUE END
  ORDER BY notice.settled_at LIMIT %(limit)s FOR UPDATE OF notice SKIP LOCKED)
"""


def forget_old_notices(*, now: datetime | None = None, limit: int = _BATCH_SIZE) -> int:
    """Delete notices that were settled more than BENCHAPP_NOTICE_RETENTION_DAYS ago; return how many.

    In batches of `limit`, each a transaction, until nothing is old or 20 s are over. 0 days keeps all of them. What
    waits to be sent is never deleted.
    """
    if not settings.NOTICE_RETENTION_DAYS:
        return 0
    before = (now or timezone.now()) - timedelta(days=settings.NOTICE_RETENTION_DAYS)
    started, forgotten = time.monotonic(), 0
    while time.monotonic() - started < _BUDGET_S:
        deleted = _forget_batch(before, limit)
        forgotten += deleted
        if not deleted:
            break
    if forgotten:
        log.info("notices.forgotten", notices=forgotten, settled_before=before.isoformat())
    return forgotten


def _forget_batch(before: datetime, limit: int) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_FORGET, {"before": before, "limit": limit})
        return int(cursor.rowcount)
