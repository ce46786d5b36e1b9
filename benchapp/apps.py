"""The one Django application."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate


class BenchappConfig(AppConfig):
    """The Django application; all layers are packages of it."""

    name = "benchapp"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks and the policies of limited readers."""
        # The Celery application is imported by the modules that need it: a sixth of the start of a command.
        from benchapp.models.limits import drop_policies, install_policies
        from benchapp.operation import checks  # noqa: F401

        pre_migrate.connect(drop_policies, sender=self)
        post_migrate.connect(install_policies, sender=self)
