"""Prices of volume types and instance types, as users state them."""

from datetime import date

from django.db import models

from benchapp.models.account import User, name_person
from benchapp.models.list_entry import Resource

PRICE_AMOUNTS: tuple[str, ...] = (
    "per_gib_month",
    "per_iops_month",
    "included_iops",
    "per_mib_s_month",
    "included_mib_s",
    "per_hour",
)


class Price(Resource):
    """The price of a volume type or an instance type in a region, from a day on.

    volume_type, instance_type: one of them, the other is "". region: "" without regions. currency: ISO 4217.
    valid_from: the first day; valid until the next price of the same type and region begins.
    per_gib_month: of the size; per_iops_month, per_mib_s_month: of what is provisioned beyond included_iops and
    included_mib_s, of each volume; per_hour: of an instance.
    removed_at: when it was deleted or replaced; it can be restored for a day. null while it is valid.
    """

    given = ("volume_type", "instance_type", "region", "currency", "valid_from", *PRICE_AMOUNTS)
    # Of `list_prices`: the first day of the next price of the type and region, exclusive; None if there is none.
    valid_until: date | None

    volume_type = models.CharField(max_length=100, blank=True, default="")
    instance_type = models.CharField(max_length=100, blank=True, default="")
    region = models.CharField(max_length=60, blank=True, default="")
    currency = models.CharField(max_length=3)
    valid_from = models.DateField()
    per_gib_month = models.FloatField(default=0.0)
    per_iops_month = models.FloatField(default=0.0)
    included_iops = models.FloatField(default=0.0)
    per_mib_s_month = models.FloatField(default=0.0)
    included_mib_s = models.FloatField(default=0.0)
    per_hour = models.FloatField(default=0.0)
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    removed_at = models.DateTimeField(null=True, blank=True, help_text="server's clock")

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=~models.Q(volume_type="", instance_type="")
                & (models.Q(volume_type="") | models.Q(instance_type="")),
                name="price_has_one_type",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    per_gib_month__gte=0,
                    per_iops_month__gte=0,
                    included_iops__gte=0,
                    per_mib_s_month__gte=0,
                    included_mib_s__gte=0,
                    per_hour__gte=0,
                ),
                name="price_is_not_negative",
            ),
            # Also serves list_prices: all prices that are valid, in this order.
            models.UniqueConstraint(
                fields=["volume_type", "instance_type", "region", "valid_from"],
                condition=models.Q(removed_at__isnull=True),
                name="price_is_unique",
            ),
        )

    def __str__(self) -> str:
        return f"price of {self.name} from {self.valid_from}"

    @property
    def name(self) -> str:
        """Return the volume type or instance type."""
        return self.volume_type or self.instance_type

    @property
    def key(self) -> tuple[str, str, str, date]:
        """Return what no two valid prices have in common."""
        return self.volume_type, self.instance_type, self.region, self.valid_from

    @property
    def created_by_name(self) -> str:
        """Return who added it; "" if that is not known."""
        return name_person(self.created_by)

    def is_valid(self, day: date) -> bool:
        """Return whether it is the price of this day."""
        return self.valid_from <= day and (self.valid_until is None or day < self.valid_until)
