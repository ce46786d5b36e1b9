"""Prices: the list, add by form or CSV, delete, restore."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.catalog.metrics import format_count
from benchapp.framework.pages.access import may_read, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.page_context import make_base_url
from benchapp.layouts.pages.price_forms import PriceCsvForm, PriceForm
from benchapp.layouts.read.prices import list_prices, list_removed_prices
from benchapp.layouts.write.price_csv import BadPrices, read_price, read_price_table
from benchapp.layouts.write.prices import (
    PRICE_RESTORABLE,
    PriceCounts,
    UnknownPrice,
    add_prices,
    remove_price,
    restore_price,
)
from benchapp.models import Price, Role


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
