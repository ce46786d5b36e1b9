"""Forms for one price, and for a CSV of prices."""

from collections.abc import Sequence
from datetime import date
from typing import Any, Final

from django import forms
from django.utils.text import capfirst

from benchapp.layouts.write.price_csv import PriceFault
from benchapp.models import Price
from benchapp.models.list_entry import find_column_type

_WIDGETS: Final = {
    str: forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}),
    date: forms.DateInput(attrs={"type": "date"}),
    float: forms.TextInput(attrs={"autocomplete": "off", "inputmode": "decimal"}),
}
_CSV_MAXIMUM: Final = 60_000
_LABELS: Final = {
    "per_gib_month": "Per GiB and month",
    "per_iops_month": "Per provisioned IOPS and month",
    "included_iops": "IOPS included",
    "per_mib_s_month": "Per provisioned MiB/s and month",
    "included_mib_s": "MiB/s included",
    "per_hour": "Instance per hour",
}
_HELP: Final = {
    "volume_type": "As hosts report it: gp3. Or an instance type:",
    "region": "Empty: all regions.",
    "currency": "Three letters: USD",
    "included_iops": "Of each volume, not charged.",
    "included_mib_s": "Of each volume, not charged.",
}


class PriceForm(forms.Form):
    """One price: a text for each given column; `read_price` reads them as cells of a CSV."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for field in Price.list_fields():
            kind = find_column_type(field)
            self.fields[field.name] = forms.CharField(
                label=_LABELS.get(field.name) or capfirst(field.verbose_name),
                help_text=_HELP.get(field.name, ""),
                required=not (field.blank or field.has_default()),
                max_length=200 if kind is str else 40,
                widget=_WIDGETS[kind],
            )

    def refuse(self, faults: Sequence[PriceFault]) -> None:
        """Add faults to their fields."""
        for fault in faults:
            name = fault.column if fault.column in self.fields else None
            self.add_error(name, f"{fault.message[:1].upper()}{fault.message[1:]}.")


class PriceCsvForm(forms.Form):
    """A CSV as a file or as text."""

    file = forms.FileField(
        label="File", required=False, widget=forms.ClearableFileInput(attrs={"accept": ".csv,text/csv"})
    )
    text = forms.CharField(
        label="or text",
        required=False,
        max_length=_CSV_MAXIMUM,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false", "class": "code"}),
    )

    def clean(self) -> dict[str, Any]:
        """Require either a file or text, and give it as `csv`."""
        cleaned: dict[str, Any] = super().clean() or {}
        file, text = cleaned.get("file"), cleaned.get("text", "")
        if bool(file) == bool(text.strip()):
            self.add_error("file", "Choose a file, or paste the text of one.")
            return cleaned
        try:
            cleaned["csv"] = file.read().decode() if file else text
        except UnicodeDecodeError:
            self.add_error("file", "The file is not UTF-8.")
        return cleaned

    def refuse(self, faults: Sequence[PriceFault]) -> None:
        """Add the faults of the CSV."""
        for fault in faults:
            self.add_error(None, f"{str(fault)[:1].upper()}{str(fault)[1:]}.")
