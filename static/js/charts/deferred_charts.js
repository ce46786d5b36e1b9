// Charts of a shared study and pinned charts: the page has their places; each is loaded by its own request.
import { showDeferred } from "./shared/deferred.js";

// Kind of chart → function that starts a chart inserted later. The modules start charts of the initial page automatically.
const STARTERS = {
  async scaling() {
    const [{ startScaling }, { startSorting }] = await Promise.all([
      import("./scaling/figure.js"),
      import("../site/sortable.js"),
      import("./scaling/page.js"),
    ]);
    return (panel) => {
      panel.querySelectorAll("[data-scaling]").forEach(startScaling);
      panel.querySelectorAll("[data-sortable]").forEach(startSorting);
    };
  },
  async history() {
    const { startHistory } = await import("./history/figure.js");
    return (panel) => panel.querySelectorAll("[data-history]").forEach((figure) => startHistory(figure));
  },
  async compare() {
    const { startComparison } = await import("./comparison/page.js");
    return (panel) => panel.querySelectorAll("[data-comparison]").forEach(startComparison);
  },
  async layouts() {
    const { startLayouts } = await import("../layouts/page.js");
    return (panel) => panel.querySelectorAll("[data-layouts]").forEach(startLayouts);
  },
  async matrix() {
    const { startGrid } = await import("./matrix/page.js");
    return (panel) => panel.querySelectorAll("[data-matrix]").forEach(startGrid);
  },
};
// A chart of an unknown kind is a text without script.
const startNothing = async () => () => {};

const sections = document.querySelectorAll("[data-deferred][data-kind]");
await showDeferred(sections, (section) => (STARTERS[section.dataset.kind] ?? startNothing)());
