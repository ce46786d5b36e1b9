"""Fields of responses, and groups of fields that several responses share."""

from typing import Any

from rest_framework import serializers

Output = serializers.Serializer[Any]


def text(**options: Any) -> serializers.CharField:
    """Return a field of text."""
    return serializers.CharField(**options)


class MetricOutput(Output):
    name = text()
    unit = text()
    better = serializers.ChoiceField(choices=("higher", "lower"))
    label = text()  # type: ignore[assignment]  # a serializer has its own label


def number(**options: Any) -> serializers.IntegerField:
    """Return a field of a whole number."""
    return serializers.IntegerField(**options)


def maybe_text() -> serializers.CharField:
    """Return text or null."""
    return text(allow_null=True)


def maybe_number() -> serializers.IntegerField:
    """Return a whole number or null."""
    return number(allow_null=True)


def real(**options: Any) -> serializers.FloatField:
    """Return a field of a number."""
    return serializers.FloatField(**options)


def maybe_real(**options: Any) -> serializers.FloatField:
    """Return a number or null."""
    return serializers.FloatField(allow_null=True, **options)


def time() -> serializers.DateTimeField:
    """Return a time, UTC."""
    return serializers.DateTimeField()


def maybe_time(**options: Any) -> serializers.DateTimeField:
    """Return a time or null."""
    return serializers.DateTimeField(allow_null=True, **options)


def badge_codes(help_text: str) -> serializers.ListField:
    """Return a list of codes of badges."""
    return serializers.ListField(child=text(), help_text=help_text)


class ChosenColumns(Output):
    """Put before the columns of a list: with the parameter `fields` a row has only those that it names."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Require none of them."""
        fields = super().get_fields()
        for field in fields.values():
            field.required = False
        return fields


class TargetColumns(Output):
    target_name = maybe_text()
    volume_type = maybe_text()
    volume_size_bytes = maybe_number()
    volume_count = maybe_number()
    provisioned_iops = maybe_number()
    raid_level = maybe_text()
    stripe_count = maybe_number()
    chunk_size_bytes = maybe_number()
    filesystem = maybe_text()
    mount_options = maybe_text()
    instance_type = maybe_text()


class WorkloadColumns(Output):
    rw = text()
    block_size_bytes = maybe_number()
    block_size_text = text()
    iodepth = maybe_number()
    numjobs = number()
    file_size_bytes = maybe_number()
    file_size_text = text()
    is_direct = serializers.BooleanField(allow_null=True)
    engine = text()
    read_share_percent = maybe_number()
    runtime_s = maybe_real()
    options = serializers.DictField()


class EnvironmentOutput(Output):
    kernel = maybe_text()
    os = maybe_text()
    fio_version = maybe_text()
    cpu_model = maybe_text()
    cpu_count = maybe_number()
    memory_bytes = maybe_number()
    scheduler = maybe_text()
    device_model = maybe_text()
    device_firmware = maybe_text()
    governor = maybe_text()
    virtualization = maybe_text()
    facts = serializers.DictField()


class PageOutput(Output):
    next = maybe_text()
    next_cursor = maybe_text()
