"""Rate limit for shared studies: charts per minute per client address."""

from typing import Final

from django.conf import settings
from django.http import HttpRequest

from benchapp.accounts.write.accounts import network_of
from benchapp.accounts.write.throttle import WindowQuota
from benchapp.framework.pages.security import read_client_address

# Per web process; a key takes a few hundred bytes.
_QUOTA: Final = WindowQuota(window_s=60, keys_maximum=10_000)


def count_shared(request: HttpRequest) -> int:
    """Count one chart for the client. Return 0 within the limit, else the seconds to wait."""
    counted = _QUOTA.count(network_of(read_client_address(request)))
    return counted.seconds_left if counted.count > settings.SHARED_CHARTS_PER_MINUTE else 0
