"""A page and everything that went wrong on it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AXE = Path(__file__).parents[1] / "vendor" / "axe.min.js"
# A machine that is busy with other things draws a page in half a minute.
PATIENCE_MS = 90_000
_NOTE_VIOLATIONS = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`);
});
"""
# Rows and items that have the elements, classes, roles and names (whether there are any) of one before them
# are left out: they would fail as that does, and axe takes as long for each. Ids are compared in all.
_RUN_AXE = """async (options) => {
  const describe = (element) => `${element.localName} ${element.className} ${element.getAttribute("role")}`
    + ` ${["aria-label", "alt", "href", "title"].map((name) => element.hasAttribute(name))}`
    + ` ${element.textContent.trim() === ""} ${element.getAttribute("style")} ${element.disabled}`;
  const seen = new Map();
  const repeated = [...document.querySelectorAll("tbody > tr, ul > li, ol > li")].filter((row) => {
    // A table may have a body for each of its things.
    const list = row.closest("table, ul, ol");
    const known = seen.get(list) ?? new Set();
    seen.set(list, known);
    const like = [row.parentNode.className, ...[row, ...row.querySelectorAll("*")].map(describe)].join();
    return known.size === known.add(like).size;
  });
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  const twice = new Set(ids.filter((id, place) => ids.indexOf(id) !== place));
  const { violations } = await axe.run({ exclude: repeated }, { resultTypes: ["violations"], ...options });
  return [
    ...violations.map((found) => `${found.id}: ${found.nodes.slice(0, 3).map((node) => node.target).join(" ")}`),
    ...[...twice].map((id) => `several elements have the id ${id}`),
  ];
}"""
# Charts take a new width some frames after the window has it; what still overhangs after 5 s stays.
_FIND_WIDEST = """async () => {
  const root = document.documentElement;
  for (let look = 0; look < 100 && root.scrollWidth > root.clientWidth; look += 1) {
    await new Promise((resume) => setTimeout(resume, 50));
  }
  return root.scrollWidth - root.clientWidth;
}"""


# What another theme or width can change.
_LOOKS = {
    "runOnly": [
        "color-contrast",
        "link-in-text-block",
        "scrollable-region-focusable",
        "meta-viewport",
        "label",
        "button-name",
        "link-name",
    ]
}


# One call, as waits of Playwright compile its scripts in each page. The attribute is the width at which a chart was
# drawn, or "true" where there is nothing to draw.
_WAIT_FOR_CHARTS = """async (patience_ms) => {
  const isDrawn = (box) => box.clientHeight > 0
    && (box.dataset.drawn === "true" || Number(box.dataset.drawn) === box.clientWidth);
  const boxes = [...document.querySelectorAll(".chart-box")];
  const end = performance.now() + patience_ms;
  while (!boxes.every(isDrawn)) {
    if (performance.now() > end) {
      const missing = boxes.filter((box) => !isDrawn(box)).map((box) => box.outerHTML.slice(0, 200));
      throw new Error(`not drawn: ${missing.join("; ")}`);
    }
    await new Promise(requestAnimationFrame);
  }
}"""


# What a test does to a tab, and not to the page in it: the next page would have it too.
CHANGES = (
    "add_init_script",
    "add_locator_handler",
    "expose_binding",
    "expose_function",
    "on",
    "once",
    "route",
    "route_from_har",
    "route_web_socket",
    "set_extra_http_headers",
)
_WATCHED = "_watched"


@dataclass
class Watched:
    """A page; complaints: errors and warnings of its console, and exceptions; is_changed: its tab was, by CHANGES."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    is_changed: bool = False

    def violations(self) -> list[str]:
        """Return what the content security policy stopped."""
        return list(self.page.evaluate("window.__violations"))

    def overhang_px(self) -> int:
        """Return how far the page can be scrolled sideways, once its charts have its width."""
        return int(self.page.evaluate(_FIND_WIDEST))

    def prepare_barriers(self) -> None:
        """Send axe to the tab once, for all pages that it opens from now on: each page takes a tenth of a second."""
        self.page.add_init_script(f"window.loadAxe = () => {{\n{AXE.read_text()}\nreturn true; }};")

    def barriers(self, *, of_looks: bool = False) -> list[str]:
        """Return the findings of axe; of_looks: only by rules that depend on the theme and the width."""
        if not self.page.evaluate("'axe' in window || ('loadAxe' in window && loadAxe())"):
            self.page.evaluate(AXE.read_text())
        return list(self.page.evaluate(_RUN_AXE, _LOOKS if of_looks else {}))

    def wait_for_charts(self) -> None:
        """Wait until every chart on the page is drawn, at its present width."""
        self.page.evaluate(_WAIT_FOR_CHARTS, PATIENCE_MS)


def find_watched(page: Any) -> Watched | None:
    """Return what watches a page, None for one that nothing watches."""
    watched: Watched | None = getattr(page, _WATCHED, None)
    return watched


def watch(page: Any) -> Watched:
    """Begin to watch a page before it opens anything; one that is watched already has no complaints then."""
    watched = find_watched(page)
    if watched is None:
        watched = Watched(page)
        setattr(page, _WATCHED, watched)
        _listen(watched)
        _note_changes(watched)
    watched.complaints.clear()
    return watched


def _listen(watched: Watched) -> None:
    def hear(message: Any) -> None:
        if message.type in ("error", "warning"):
            # What was not found is in the place alone, not in the text.
            watched.complaints.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    watched.page.on("console", hear)
    watched.page.on("pageerror", lambda error: watched.complaints.append(f"exception: {error}"))
    watched.page.add_init_script(_NOTE_VIOLATIONS)


def _note_changes(watched: Watched) -> None:
    """Set `is_changed` when a method of CHANGES is called."""

    def note(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            watched.is_changed = True
            return method(*arguments, **named)

        return call

    for name in CHANGES:
        setattr(watched.page, name, note(getattr(watched.page, name)))
