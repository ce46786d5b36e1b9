// The buttons below a history: zoom, and the zone that its times are told in.
import { findOwnZone } from "../shared/zones.js";

/** Let the buttons and the choice of a zone work. history: the figure's. */
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
  select.querySelector("[value=own]").textContent = `yours: ${findOwnZone()}`;
  select.disabled = false;
  select.addEventListener("change", () => history.changeZone(select.value));
}
