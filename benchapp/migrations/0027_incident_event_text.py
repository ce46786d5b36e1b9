"""Name the text of an event of an incident `text`."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0026_text_of_study_panels")]

    operations = [migrations.RenameField(model_name="incidentevent", old_name="words", new_name="text")]
