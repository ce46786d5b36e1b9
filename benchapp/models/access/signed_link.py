"""Signed links: addresses that everybody reads who has them."""

from datetime import datetime
from typing import Self

from django.db import models

from benchapp.models.account import User
from benchapp.models.host import ApiToken


class SignedLinkQuerySet(models.QuerySet["SignedLink"]):
    """Queries over signed links."""

    def open_at(self, now: datetime) -> Self:
        """Filter links that can be read at a given time: until they expire, are revoked, or lose their maker.

        Their maker is the token, else the account.
        """
        made = models.Q(token__in=ApiToken.objects.valid_at(now)) | models.Q(
            token__isnull=True, created_by__in=User.objects.filter(is_active=True)
        )
        return self.filter(made, revoked_at__isnull=True, expires_at__gt=now)


class SignedLink(models.Model):
    """An address of the API that is read without a token.

    url: path and query as signed, without expiry and signature, parameters by name. token: that made it, null for a
    session; created_by: the person, of a token the owner. is_numbered: False for a link of before links had ids.
    """

    url = models.TextField()
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    token = models.ForeignKey(ApiToken, null=True, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(help_text="server's clock")
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    is_numbered = models.BooleanField(default=True)

    objects = SignedLinkQuerySet.as_manager()

    class Meta:
        indexes = (
            # queries.personal.links.page_links: newest first.
            models.Index(fields=["-created_at", "-id"], name="signed_link_by_time"),
        )

    def __str__(self) -> str:
        return f"signed link {self.pk} to {self.url}"
