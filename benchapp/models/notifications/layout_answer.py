"""The remembered answers to the layout questions of subscriptions."""

from django.db import models

from benchapp.models.subscription import Subscription


class StoredLayoutAnswer(models.Model):
    """The answer to the question of a subscription that was reported last, or the first one.

    answer, pending: analysis.layouts.answers.RememberedAnswer as JSON; pending: another one that was found once.
    problem: why the question has no answer today, "" if it has. changed_at: when the answer changed last.
    """

    subscription = models.OneToOneField(
        Subscription, on_delete=models.CASCADE, primary_key=True, related_name="layout_answer"
    )
    answer = models.JSONField(null=True)
    pending = models.JSONField(null=True)
    problem = models.CharField(max_length=300, blank=True, default="")
    evaluated_at = models.DateTimeField(help_text="server's clock")
    changed_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"layout answer of subscription {self.subscription_id}"
