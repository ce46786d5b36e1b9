// The form of a maintenance or an expected change: its times in the reader's own zone, unless UTC is chosen.
import { findOwnZone, makeZone } from "../charts/shared/zones.js";

const form = document.querySelector("[data-planned-event]");
const select = form.querySelector("[name=zone]");
const own = findOwnZone();

// A server without the table of zones reads UTC only.
if (form.dataset.zones !== undefined && own !== "UTC") {
  if (![...select.options].some(({ value }) => value === own)) {
    select.add(new Option(`yours: ${own}`, own));
  }
  // What came back with an error, or with its preview, is in the zone that was chosen.
  if (form.dataset.fresh !== undefined) {
    select.value = own;
    const zone = makeZone(own);
    for (const input of form.querySelectorAll("[type=datetime-local]")) {
      const utc = Date.parse(`${input.value}Z`);
      input.value = new Date(utc + zone.offsetAt(utc)).toISOString().slice(0, 16);
    }
  }
}
