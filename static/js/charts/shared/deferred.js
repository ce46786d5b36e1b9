// Charts that a page loads after itself, one after the other, each by its own request.
import { getPage } from "../../site/api.js";
import { showProblem } from "./chart_frame.js";

/** Load the sections one after the other. load: (section) → promise of the function that starts the panel. */
export async function showDeferred(sections, load) {
  for (const section of sections) {
    await showOne(section, load);
  }
}

async function showOne(section, load) {
  try {
    const [page, start] = await Promise.all([getPage(section.dataset.deferred), load(section)]);
    const panel = document.adoptNode(page.querySelector(".panel"));
    section.replaceWith(panel);
    start(panel);
  } catch (error) {
    section.removeAttribute("aria-busy");
    const message = error.name === "ApiProblem" ? error.message : "The chart could not be rendered.";
    showProblem(section.querySelector(".pending-chart"), message, () => showOne(section, load));
  }
}
