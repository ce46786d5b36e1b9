"""Tabs of one browser: each lives for one test; what they share, a warm cache, is kept for the next."""

from dataclasses import dataclass, field
from typing import Any

# Whatever a site can keep in a browser but cookies, which are set anew, and the cache of HTTP.
KEPT = "file_systems,indexeddb,local_storage,service_workers,cache_storage"
# A machine that is busy with other things draws a page in half a minute.
PATIENCE_MS = 90_000


@dataclass
class Tabs:
    """Opens tabs in contexts that are kept by their options; close() leaves no trace of the tabs."""

    browser: Any
    server: str
    contexts: dict[str, Any] = field(default_factory=dict)

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
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=color_scheme, reduced_motion="reduce")
        return page

    def close(self) -> None:
        """Close every tab, with what it still has under way, and forget what its pages have kept."""
        for context in self.contexts.values():
            if context.pages:
                session = context.new_cdp_session(context.pages[0])
                session.send("Storage.clearDataForOrigin", {"origin": self.server, "storageTypes": KEPT})
            for page in context.pages:
                page.close()
