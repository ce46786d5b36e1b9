"""Prices: the list, add by form or CSV, delete, restore."""

from collections.abc import Sequence
from datetime import date
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.text import capfirst
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.catalog.metrics import format_count
from benchapp.framework.pages.access import may_read, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.page_context import make_base_url
from benchapp.layouts.read.prices import list_prices, list_removed_prices
from benchapp.layouts.write import (
    PRICE_RESTORABLE,
    BadPrices,
    PriceCounts,
    PriceFault,
    UnknownPrice,
    add_prices,
    read_price,
    read_price_table,
    remove_price,
    restore_price,
)
from benchapp.models import Price, Role
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


@never_cache
@require_safe
@may_read
def prices(request: HttpRequest) -> HttpResponse:
    """List all prices, and the deleted ones that can be restored."""
    now = timezone.now()
    context = {
        "rows": [(price, price.is_valid(now.date())) for price in list_prices(has_people=True)],
        "removed": list_removed_prices(since=now - PRICE_RESTORABLE),
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/prices"),
    }
    return render(request, "layouts/prices.html", context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.EDITOR)
def add_price(request: HttpRequest) -> HttpResponse:
    """Show the forms, or store one price or those of a CSV (`do` is csv)."""
    is_csv = request.POST.get("do") == "csv"
    form = PriceForm(request.POST) if request.method == "POST" and not is_csv else PriceForm()
    csv_form = PriceCsvForm(request.POST, request.FILES) if is_csv else PriceCsvForm()
    filled = csv_form if is_csv else form
    if filled.is_valid():
        try:
            rows = (
                read_price_table(csv_form.cleaned_data["csv"]) if is_csv else [read_price(form.cleaned_data)]
            )
            counts = add_prices(rows, by=read_person(request))
        except BadPrices as error:
            filled.refuse(error.faults)
        else:
            messages.success(request, _describe_counts(counts), extra_tags="good")
            return redirect("prices")
    context = {"form": form, "csv_form": csv_form, "columns": Price.given}
    return render(request, "layouts/add_price.html", context, status=400 if filled.errors else 200)


@require_POST
@needs_role(Role.EDITOR)
def change_price(request: HttpRequest, price_id: int) -> HttpResponse:
    """Delete a price or restore it: `do` is remove or restore."""
    action = request.POST.get("do", "")
    try:
        if action == "remove":
            remove_price(price_id, by=read_person(request))
            messages.success(request, "Price deleted. It can be restored for a day.", extra_tags="good")
        elif action == "restore":
            restore_price(price_id, by=read_person(request))
            messages.success(request, "Price restored.", extra_tags="good")
        else:
            messages.error(request, "Not changed: choose remove or restore.", extra_tags="bad")
    except UnknownPrice as error:
        raise Http404(f"{error}.") from error
    except BadPrices as error:
        messages.error(request, f"Not restored: {error}.", extra_tags="bad")
    return redirect("prices")


def _describe_counts(counts: PriceCounts) -> str:
    parts = [
        f"{format_count(number, 'price')} {what}"
        for number, what in (
            (counts.added, "added"),
            (counts.replaced, "replaced"),
            (counts.unchanged, "unchanged"),
        )
        if number
    ]
    return f"{', '.join(parts)}."
