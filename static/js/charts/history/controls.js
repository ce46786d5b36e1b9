// Controls below a history: zoom buttons and time zone.
import { findOwnZone } from "../../site/browser_zone.js";

/** Start the zoom buttons and the time-zone menu. history: the figure's. */
export function startControls(history) {
  const { figure } = history;
  const act = {
    in: () => history.zoomBy(0.5),
    out: () => history.zoomBy(2),
    reset: () => history.zoom({ ...history.whole.whole }),
  };
  for (const button of figure.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", act[button.dataset.zoom]);
  }
  const select = figure.querySelector("[data-zone-choice]");
  select.querySelector("[value=own]").textContent = `browser: ${findOwnZone()}`;
  select.disabled = false;
  select.addEventListener("change", () => history.changeZone(select.value));
}
