"""The one Django application."""

from django.apps import AppConfig


class BenchappConfig(AppConfig):
    """The Django application; all layers are packages of it."""

    name = "benchapp"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks and the Celery application."""
        from benchapp import celery, checks  # noqa: F401
