"""Notices go to services with Apprise."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0046_external_identities"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="subscription",
            name="subscription_channel_is_known",
        ),
        migrations.AlterField(
            model_name="subscription",
            name="channel",
            field=models.CharField(
                choices=[
                    ("email", "E-mail"),
                    ("slack", "Slack-compatible webhook"),
                    ("webhook", "Webhook (Standard Webhooks)"),
                    ("apprise", "ntfy, Teams, PagerDuty, … (Apprise URL)"),
                ],
                max_length=7,
            ),
        ),
        migrations.AddConstraint(
            model_name="subscription",
            constraint=models.CheckConstraint(
                condition=models.Q(("channel__in", ["email", "slack", "webhook", "apprise"])),
                name="subscription_channel_is_known",
            ),
        ),
    ]
