// Every history of a page; where one owns the page's address, what is written around it follows its zoom.
import { getPage } from "../../site/api.js";
import { startHistory } from "./figure.js";
import { startLatency } from "../latency/page.js";

const figures = [...document.querySelectorAll("[data-history]")];
const latency = startLatency([...document.querySelectorAll("[data-latency]")]);
let asking = null;

// The page of the new address knows the title, the words and the tables of the part in view.
async function follow() {
  asking?.abort();
  asking = new AbortController();
  try {
    const page = await getPage(location.href, { signal: asking.signal });
    for (const part of document.querySelectorAll("[data-follows]")) {
      const fresh = page.querySelector(`[data-follows="${part.dataset.follows}"]`);
      // Nothing is taken from under the reader's hands.
      if (fresh !== null && !part.contains(document.activeElement)) {
        part.replaceWith(document.adoptNode(fresh));
      }
    }
    document.title = page.title;
  } catch {
    // The chart is right; the words beside it say of which span they are when the page is loaded again.
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
