"""Series without a name of their target continue under the first that comes; results of before still join them."""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0068_environments_know_their_device_class"),
    ]

    operations = [
        migrations.AddField(
            model_name="series",
            name="former_targets",
            field=ArrayField(models.CharField(max_length=64), blank=True, default=list, size=None),
        ),
        migrations.AddField(
            model_name="series",
            name="is_reread",
            field=models.BooleanField(default=False, help_text="due because history was read again: no news"),
        ),
    ]
