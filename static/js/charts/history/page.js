// All history charts of a page; texts and tables follow the zoom of a chart that owns the page's URL.
import { getPage } from "../../site/api.js";
import { startHistory } from "./figure.js";
import { startLatency } from "../latency/page.js";

const figures = [...document.querySelectorAll("[data-history]")];
const latency = startLatency([...document.querySelectorAll("[data-latency]")]);
let asking = null;

// The page at the new URL has the title, texts and tables of the visible range.
async function follow() {
  asking?.abort();
  asking = new AbortController();
  try {
    const page = await getPage(location.href, { signal: asking.signal, headers: { "X-Texts-Only": "1" } });
    for (const part of document.querySelectorAll("[data-follows]")) {
      const fresh = page.querySelector(`[data-follows="${part.dataset.follows}"]`);
      // Do not replace elements that have the focus.
      if (fresh !== null && !part.contains(document.activeElement)) {
        part.replaceWith(document.adoptNode(fresh));
      }
    }
    document.title = page.title;
  } catch {
    // The chart is up to date; texts are updated on the next load of the page.
  }
}

for (const figure of figures) {
  startHistory(figure, {
    onZone: (zone) => latency.setZone(zone),
    onView: (span) => {
      latency.show(span);
      if (figure.dataset.ownsAddress !== undefined) {
        follow();
      }
    },
  });
}
