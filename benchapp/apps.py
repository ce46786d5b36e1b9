"""The one Django application."""

from django.apps import AppConfig


class BenchappConfig(AppConfig):
    """All rooms are folders of this application."""

    name = "benchapp"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, and Celery's application for whoever publishes."""
        from benchapp import celery, checks  # noqa: F401
