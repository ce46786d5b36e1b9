// The form of a planned event: times in the time zone of the account, without one in that of the browser.
import { makeZone } from "../charts/shared/zones.js";
import { findOwnZone } from "../site/browser_zone.js";

const form = document.querySelector("[data-planned-event]");
const select = form.querySelector("[name=zone]");
const own = findOwnZone();

// Without a time zone database the server accepts only UTC.
if (form.dataset.zones !== undefined && own !== "UTC") {
  if (![...select.options].some(({ value }) => value === own)) {
    select.add(new Option(`${own} (local)`, own));
  }
  // A form with errors or a preview keeps the selected zone.
  if (form.dataset.fresh !== undefined && select.value === "UTC") {
    select.value = own;
    const zone = makeZone(own);
    for (const input of form.querySelectorAll("[type=datetime-local]")) {
      // A note of one time has no end.
      if (input.value === "") {
        continue;
      }
      const utc = Date.parse(`${input.value}Z`);
      input.value = new Date(utc + zone.offsetAt(utc)).toISOString().slice(0, 16);
    }
  }
}
