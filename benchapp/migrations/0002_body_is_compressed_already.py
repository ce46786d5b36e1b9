"""Keep PostgreSQL from compressing what is gzip already."""

from django.db import migrations


class Migration(migrations.Migration):
    """Set the storage of the body."""

    dependencies = [("benchapp", "0001_first_tables")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE benchapp_submission ALTER COLUMN body SET STORAGE EXTERNAL",
            "ALTER TABLE benchapp_submission ALTER COLUMN body SET STORAGE EXTENDED",
        )
    ]
