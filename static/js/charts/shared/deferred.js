// Charts that a page loads after itself, one after the other, each by its own request. On a page that updates itself
// (site/live.js) each is asked for again, at most once a minute.
import { getPage } from "../../site/api.js";
import { showProblem } from "./chart_frame.js";

const REFRESH_MS = 60_000;

/** Load the sections one after the other. load: (section) → promise of the function that starts the panel. */
export async function showDeferred(sections, load) {
  const shown = [];
  let refreshedAt = Date.now();
  document.addEventListener("page-update", async () => {
    if (Date.now() - refreshedAt >= REFRESH_MS) {
      refreshedAt = Date.now();
      await Promise.all(shown.map(refresh));
    }
  });
  for (const section of sections) {
    await showOne(section, load, shown);
  }
}

async function showOne(section, load, shown) {
  const url = section.dataset.deferred;
  try {
    const [page, start] = await Promise.all([getPage(url), load(section)]);
    const chart = { url, start, panel: section };
    showPanel(chart, page);
    shown.push(chart);
  } catch (error) {
    section.removeAttribute("aria-busy");
    const message = error.name === "ApiProblem" ? error.message : "The chart could not be rendered.";
    showProblem(section.querySelector(".pending-chart"), message, () => showOne(section, load, shown));
  }
}

// The server's text, as a started chart differs from it.
function showPanel(chart, page) {
  const panel = document.adoptNode(page.querySelector(".panel"));
  const text = panel.outerHTML;
  if (text !== chart.text && !(chart.text && chart.panel.matches(":hover, :focus-within"))) {
    for (const canvas of chart.panel.querySelectorAll("canvas")) globalThis.Chart?.getChart(canvas)?.destroy();
    chart.panel.replaceWith(panel);
    Object.assign(chart, { panel, text });
    chart.start(panel);
  }
}

async function refresh(chart) {
  try {
    showPanel(chart, await getPage(chart.url));
  } catch {
    // The page itself says that it is not updated.
  }
}
