"""Forms for one price, and for a CSV of prices."""

from collections.abc import Sequence
from typing import Any, Final

from django import forms

from benchapp.layouts.write.price_csv import PRICE_COLUMNS, PriceFault

_TEXT: Final = {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}
_AMOUNT: Final = {"autocomplete": "off", "inputmode": "decimal"}
_CSV_MAXIMUM: Final = 60_000


def _text(label: str, *, help_text: str = "", required: bool = False) -> forms.CharField:
    return forms.CharField(
        label=label,
        required=required,
        help_text=help_text,
        max_length=200,
        widget=forms.TextInput(attrs=_TEXT),
    )


def _amount(label: str, *, help_text: str = "") -> forms.CharField:
    """Return a field of an amount; `read_price` reads it as that of a CSV."""
    return forms.CharField(
        label=label, required=False, help_text=help_text, max_length=40, widget=forms.TextInput(attrs=_AMOUNT)
    )


class PriceForm(forms.Form):
    """One price; `read_price` checks the values."""

    volume_type = _text("Volume type", help_text="As hosts report it: gp3. Or an instance type:")
    instance_type = _text("Instance type")
    region = _text("Region", help_text="Empty: all regions.")
    currency = _text("Currency", help_text="Three letters: USD", required=True)
    valid_from = forms.CharField(
        label="Valid from", max_length=40, widget=forms.DateInput(attrs={"type": "date"})
    )
    per_gib_month = _amount("Per GiB and month")
    per_iops_month = _amount("Per provisioned IOPS and month")
    included_iops = _amount("IOPS included", help_text="Of each volume, not charged.")
    per_mib_s_month = _amount("Per provisioned MiB/s and month")
    included_mib_s = _amount("MiB/s included", help_text="Of each volume, not charged.")
    per_hour = _amount("Instance per hour")

    def refuse(self, faults: Sequence[PriceFault]) -> None:
        """Add faults to their fields."""
        for fault in faults:
            name = fault.column if fault.column in PRICE_COLUMNS else None
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
