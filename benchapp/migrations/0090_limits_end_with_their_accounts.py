from functools import partial

from django.db import migrations
from django.db.models import Q
from django.utils import timezone


def close(apps, schema_editor):
    """Before the limits are dropped: end accounts, tokens and invitations that have some."""
    model = partial(apps.get_model, "benchapp")
    model("User").objects.exclude(pools=[]).update(is_active=False)
    limited = ~Q(pools=[]) | ~Q(host_pattern="")
    model("ApiToken").objects.filter(limited, revoked_at=None).update(revoked_at=timezone.now())
    model("Invitation").objects.exclude(pools=[]).delete()


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0089_readers_are_limited_to_pools")]

    operations = [migrations.RunPython(migrations.RunPython.noop, close)]
