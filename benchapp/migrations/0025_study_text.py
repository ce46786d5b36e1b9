"""Name the text of a study `text`."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0024_agent_version_and_driver")]

    operations = [migrations.RenameField(model_name="study", old_name="words", new_name="text")]
