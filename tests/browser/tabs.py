"""Tabs of one browser: each serves one test at a time; what they share, a warm cache, is kept for the next.

A tab is used again, as a new one costs a quarter of a second of CPU time: Chromium starts a process for it, which
compiles the scripts again. One in which a test has changed more than the page (`watch.CHANGES`) is closed.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.browser.watch import PATIENCE_MS, find_watched

# Whatever a site can keep in a browser but cookies, which are set anew, and the cache of HTTP.
KEPT = "file_systems,indexeddb,local_storage,service_workers,cache_storage"


@dataclass
class Tabs:
    """Opens tabs in contexts that are kept by their options; close() leaves no trace of the pages in them."""

    browser: Any
    server: str
    contexts: dict[str, Any] = field(default_factory=dict)
    # An empty tab by the options of its context.
    unused: dict[str, Any] = field(default_factory=dict)

    def open(self, cookies: list[Any], *, width: int, color_scheme: str, **options: Any) -> Any:
        """Return a tab of this width and theme that has these cookies and no others; options are of a context."""
        key = repr(sorted(options.items()))
        if key not in self.contexts:
            self.contexts[key] = self.browser.new_context(
                base_url=self.server, accept_downloads=True, **options
            )
            self.contexts[key].set_default_timeout(PATIENCE_MS)
        context = self.contexts[key]
        context.clear_cookies()
        context.add_cookies(cookies)
        page = self.unused.pop(key, None) or context.new_page()
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(media="null", color_scheme=color_scheme, reduced_motion="reduce")
        return page

    def close(self) -> None:
        """Empty one tab of each context and close the others, and forget what their pages have kept."""
        for key, context in self.contexts.items():
            used = [page for page in context.pages if page is not self.unused.get(key)]
            if used:
                session = context.new_cdp_session(used[0])
                session.send("Storage.clearDataForOrigin", {"origin": self.server, "storageTypes": KEPT})
                session.detach()
            for page in used:
                watched = find_watched(page)
                if key in self.unused or watched is None or watched.is_changed:
                    page.close()
                else:
                    self._empty(page)
                    self.unused[key] = page

    def _empty(self, page: Any) -> None:
        # Not about:blank: for a page of another site, and for the next of this one, Chromium starts new processes.
        page.goto(f"{self.server}/healthz")
        page.evaluate("sessionStorage.clear()")
        page.mouse.move(0, 0)
