"""Confirm or block an e-mail address from the link of a confirmation mail, without sign-in."""

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from benchapp.framework.queue import wake_notify
from benchapp.notices.write import email_confirmation

_CHOICES: Final = {
    "confirm": email_confirmation.confirm_address,
    "refuse": email_confirmation.refuse_address,
}


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def confirm_address(request: HttpRequest, token: str) -> HttpResponse:
    """Show the choice with GET (mail scanners follow links); apply it with POST."""
    address = email_confirmation.find_address(token)
    choice = request.POST.get("choice", "") if request.method == "POST" else ""
    if address is None or (choice in _CHOICES and not _CHOICES[choice](token)):
        return _forbid_indexing(render(request, "notices/confirm_address_refused.html", status=410))
    if choice == "confirm":
        wake_notify()
    context = {"address": address.address, "username": address.owner.username, "choice": choice}
    return _forbid_indexing(render(request, "notices/confirm_address.html", context))


def _forbid_indexing(answer: HttpResponse) -> HttpResponse:
    """Exclude the page from search engines: its URL is a secret."""
    answer["X-Robots-Tag"] = "noindex, nofollow"
    return answer
