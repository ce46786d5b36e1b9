// Maintenance, expected changes and notes of a history: shaded spans in the panels, ticks with text below them.
import { groupChanges, measureRoom } from "./changes.js";
import { drawVertical } from "../shared/marks.js";
import { withAlpha } from "../shared/palette.js";

const KINDS = { maintenance: "Maintenance", change: "Expected change", note: "Note" };
const LABEL_FROM_PX = 44;
const EVENTS_SHOWN = 8;

/** Read the planned events of an answer of /api/v1/history, ascending by start: [{id, kind, reason, at, to, page}]. */
export function readPlanned({ planned_events: events = [] }) {
  return events
    .map(({ id, kind, reason, from_at: from, ends_at: to, page }) => ({ id, kind, reason, page, at: Date.parse(from), to: Date.parse(to) }))
    .sort((a, b) => a.at - b.at || a.id - b.id);
}

/** Return the events in effect at any time of a view {from, to}. */
export function selectPlanned(events, { from, to }) {
  return events.filter((event) => event.at <= to && (event.to > from || event.at >= from));
}

/** Describe an event: "Note: moved to rack 7, 12 May 2026, 02:10 UTC". formatTime: of a time in ms. */
export function describePlanned({ kind, reason, at, to }, formatTime) {
  return `${KINDS[kind]}: ${reason}, ${formatTime(at)}${to > at ? ` to ${formatTime(to)}` : ""}`;
}

/** Shade the span of each event and draw a line at its start. */
export function drawPlanned(ctx, events, { chartArea, scales, colors }) {
  const { min, max } = scales.x;
  for (const { at, to } of selectPlanned(events, { from: min, to: max })) {
    const [left, right] = [at, to].map((moment) => scales.x.getPixelForValue(Math.min(Math.max(moment, min), max)));
    ctx.fillStyle = withAlpha(colors.muted, 0.12);
    ctx.fillRect(left, chartArea.top, right - left, chartArea.height);
    if (at >= min) {
      ctx.strokeStyle = colors.muted;
      ctx.lineWidth = 1;
      drawVertical(ctx, Math.round(left) + 0.5, chartArea);
    }
  }
}

/** Place a tick with text below the main panel for each event in view. history: the figure's; chart: of the panel. */
export function placePlanned(history, chart) {
  const row = history.figure.querySelector("[data-planned]");
  const { left, right } = chart.chartArea;
  const { min, max } = chart.scales.x;
  const inView = selectPlanned(history.planned, { from: min, to: max });
  // A span that starts before the view has its tick at the edge.
  const placeOf = (at) => chart.scales.x.getPixelForValue(Math.max(at, min));
  const groups = measureRoom(groupChanges(inView, { placeOf, left, right }), right);
  row.hidden = groups.length === 0;
  row.replaceChildren(...groups.map((group) => makeTick(history, group)));
}

function makeTick(history, { x, room, changes: events }) {
  const texts = events.map((event) => describePlanned(event, (at) => history.formatTime(at)));
  const tick = document.createElement(history.hasLinks ? "a" : "button");
  if (history.hasLinks) {
    // Several events at one place: the list below has all of them.
    tick.href = events.length === 1 ? events[0].page : "#planned-events";
  } else {
    tick.type = "button";
  }
  tick.className = "change-tick planned-tick";
  tick.style.left = `${x}px`;
  tick.style.maxWidth = `${Math.max(14, room - 2)}px`;
  tick.setAttribute("aria-label", texts.join("; "));
  const label = events.length > 1 ? `${events[0].reason} +${events.length - 1}` : events[0].reason;
  tick.textContent = room < LABEL_FROM_PX ? "" : label;
  const show = () => {
    history.readout.textContent = texts.join("; ");
    const title = events.length > 1 ? `${events.length} planned events` : KINDS[events[0].kind];
    const foot = history.hasLinks ? (events.length === 1 ? "click: open" : "click: list below") : "";
    history.tip.show({ title, lines: texts.slice(0, EVENTS_SHOWN), foot, x, top: history.main.offsetTop });
  };
  tick.addEventListener("pointerenter", show);
  tick.addEventListener("focus", show);
  tick.addEventListener("pointerleave", () => history.tip.hide());
  tick.addEventListener("blur", () => history.tip.hide());
  return tick;
}
