"""Identities at an OpenID Connect provider, each of one account."""

from django.db import models

from benchapp.models.account import User


class ExternalIdentity(models.Model):
    """A person at a provider: issuer and subject, which never change; names and addresses there do."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="external_identities")
    issuer = models.CharField(max_length=500)
    subject = models.CharField(max_length=255)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["issuer", "subject"], name="external_identity_is_unique"),
        )

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"
