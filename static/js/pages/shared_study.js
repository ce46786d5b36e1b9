// A shared study: the words are there at once, the pictures come one after the other, each by its own request.
import { getPage } from "../site/api.js";
import { showProblem } from "../charts/shared/chart_frame.js";

// Kind of picture → what starts one that was put into the page. The modules start by themselves what was there before.
const STARTERS = {
  async scaling() {
    const [{ startScaling }, { startSorting }] = await Promise.all([
      import("../charts/scaling/figure.js"),
      import("../site/sortable.js"),
      import("../charts/scaling/page.js"),
    ]);
    return (picture) => {
      picture.querySelectorAll("[data-scaling]").forEach(startScaling);
      picture.querySelectorAll("[data-sortable]").forEach(startSorting);
    };
  },
  async history() {
    const { startHistory } = await import("../charts/history/figure.js");
    return (picture) => picture.querySelectorAll("[data-history]").forEach((figure) => startHistory(figure));
  },
  async compare() {
    const { startComparison } = await import("../charts/comparison/page.js");
    return (picture) => picture.querySelectorAll("[data-comparison]").forEach(startComparison);
  },
  async matrix() {
    const { startMatrix } = await import("../charts/matrix/page.js");
    return (picture) => picture.querySelectorAll("[data-matrix-figure]").forEach(startMatrix);
  },
};
// A picture of a kind that nothing draws says so in words.
const startNothing = async () => () => {};

async function show(section) {
  try {
    const load = STARTERS[section.dataset.kind] ?? startNothing;
    const [page, start] = await Promise.all([getPage(section.dataset.picture), load()]);
    const picture = document.adoptNode(page.querySelector(".panel"));
    section.replaceWith(picture);
    start(picture);
  } catch (error) {
    section.removeAttribute("aria-busy");
    const message = error.name === "ApiProblem" ? error.message : "This picture could not be drawn.";
    showProblem(section.querySelector(".picture-to-come"), message, () => show(section));
  }
}

for (const section of document.querySelectorAll("[data-picture]")) {
  await show(section);
}
