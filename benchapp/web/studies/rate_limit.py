"""What strangers may ask for: so many pictures of shared studies a minute from one address."""

from typing import Final

from django.conf import settings
from django.http import HttpRequest

from benchapp.pipeline.access.accounts import network_of
from benchapp.pipeline.access.rate_limit import WindowQuota
from benchapp.web.site.security import read_client_address

# Of each web process; a key takes some hundred bytes.
_QUOTA: Final = WindowQuota(window_s=60, keys_maximum=10_000)


def count_picture(request: HttpRequest) -> int:
    """Count one picture for the address that asks. Return 0 while it may have it, else the seconds to wait."""
    counted = _QUOTA.count(network_of(read_client_address(request)))
    return counted.seconds_left if counted.count > settings.SHARED_PICTURES_PER_MINUTE else 0
