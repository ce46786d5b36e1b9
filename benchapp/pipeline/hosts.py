"""Change what we keep of a host."""

from django.utils import timezone

from benchapp.models import Host


def retire_host(name: str) -> bool:
    """Take a host out of service: its history stays, its tokens open nothing; False when it is retired already."""
    return Host.objects.active().filter(name=name).update(retired_at=timezone.now()) == 1


def restore_host(name: str) -> bool:
    """Bring a retired host back, with the tokens that it had; False when it is in service."""
    return Host.objects.filter(name=name, retired_at__isnull=False).update(retired_at=None) == 1


def set_pool(name: str, pool: str) -> bool:
    """Put a host into a pool ("" for none): from now on its results belong to the pool's series."""
    return Host.objects.filter(name=name).update(pool=pool) == 1
