"""The one Django application."""

from django.apps import AppConfig


class BenchappConfig(AppConfig):
    """The Django application; all layers are packages of it."""

    name = "benchapp"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks."""
        # The Celery application is imported by the modules that need it: a sixth of the start of a command.
        from benchapp.operation import checks  # noqa: F401
