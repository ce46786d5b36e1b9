// Times in a zone: that of the page, UTC, the browser's, or the host's; milliseconds since 1970. benchapp/framework/times.py formats
// them in the same way; tests/data/moment_cases.json tests both.
import { formatClock, formatDay } from "../../site/format.js";
import { timeTicks } from "./time_axis.js";

/** UTC itself. */
export const UTC = { name: "UTC", offsetAt: () => 0 };

/** Return the zone of a name ("Europe/Berlin"); UTC where the browser does not know it. */
export function makeZone(name) {
  if (name === "UTC") {
    return UTC;
  }
  try {
    const parts = new Intl.DateTimeFormat("en-US", { timeZone: name, timeZoneName: "longOffset" });
    return { name, offsetAt: (ms) => readOffset(parts, ms) };
  } catch {
    return UTC;
  }
}

/** The zone of the page: that of the account, else of the server. */
export const PAGE_ZONE = makeZone(globalThis.document?.documentElement.dataset.timeZone ?? "UTC");

/** Format a time in a zone: "12 May 2026 04:10 UTC+2". */
export function formatMoment(ms, zone = PAGE_ZONE) {
  const local = ms + zone.offsetAt(ms);
  return `${formatDay(local)} ${new Date(local).getUTCFullYear()} ${formatClock(local)} ${formatOffset(ms, zone)}`;
}

/** Return the offset of a zone at a time: "UTC", "UTC+2", "UTC−3:30". */
export function formatOffset(ms, zone) {
  const minutes = Math.round(zone.offsetAt(ms) / 60_000);
  if (minutes === 0) {
    return "UTC";
  }
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `UTC${minutes < 0 ? "−" : "+"}${hours}${rest === 0 ? "" : `:${String(rest).padStart(2, "0")}`}`;
}

/** Return [{value, label}] of at most `most` ticks within [from, to], at round times of the zone. */
export function zonedTicks(from, to, { most, zone }) {
  const ticks = timeTicks(from + zone.offsetAt(from), to + zone.offsetAt(to), most);
  return ticks.map(({ value, label }) => ({ value: value - zone.offsetAt(value - zone.offsetAt(from)), label }));
}

function readOffset(parts, ms) {
  const text = parts.formatToParts(ms).find(({ type }) => type === "timeZoneName")?.value ?? "GMT";
  const found = /GMT([+-])(\d{2}):(\d{2})/.exec(text);
  if (found === null) {
    return 0;
  }
  const [, sign, hours, minutes] = found;
  return (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000;
}
