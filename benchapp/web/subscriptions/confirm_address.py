"""The page behind the link of a confirmation mail: its reader confirms the address, or refuses mail. No sign-in."""

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from benchapp.pipeline.notifications import email_confirmation
from benchapp.queue import wake_notify

_CHOICES: Final = {
    "confirm": email_confirmation.confirm_address,
    "refuse": email_confirmation.refuse_address,
}


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def confirm_address(request: HttpRequest, token: str) -> HttpResponse:
    """Ask with GET, which programs that scan mail follow, too; do what was chosen with POST."""
    address = email_confirmation.find_address(token)
    choice = request.POST.get("choice", "") if request.method == "POST" else ""
    if address is None or (choice in _CHOICES and not _CHOICES[choice](token)):
        return _seal(render(request, "subscriptions/confirm_address_refused.html", status=410))
    if choice == "confirm":
        wake_notify()
    context = {"address": address.address, "username": address.owner.username, "choice": choice}
    return _seal(render(request, "subscriptions/confirm_address.html", context))


def _seal(answer: HttpResponse) -> HttpResponse:
    """No search engine lists the address of this page, which is a key."""
    answer["X-Robots-Tag"] = "noindex, nofollow"
    return answer
