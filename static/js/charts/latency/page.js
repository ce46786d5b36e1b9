// Latency over time of a series: percentile fan and heat map, from the API.
import { setParameters } from "../../site/address.js";
import { getJson } from "../../site/api.js";
import { buildFan, describeColumn, prepareFan } from "./fan.js";
import { buildHeat, colorOf, describeCell, findCell, isDarkPaper, MINIMUM_SHARE, moveCell, prepareHeat } from "./heatmap.js";
import { LineNames } from "../shared/line_names.js";
import { styleOf } from "../shared/palette.js";
import { join, readAxis } from "../shared/together.js";
import { PAGE_ZONE } from "../shared/zones.js";
import { showProblem, startChart } from "../shared/chart_frame.js";
import { onThemeChange, readColors } from "../shared/colors.js";
import { moveBy } from "../../site/navigation.js";

const LEGEND_STEPS = 40;

/** Start the figures. Returns {show(span or null), setZone(zone)}, which the history chart calls. */
export function startLatency(figures) {
  const started = figures.map((figure) => (figure.dataset.latency === "fan" ? new Fan(figure) : new HeatMap(figure)));
  const waiting = new Set(figures);
  const load = (figure) => {
    if (waiting.delete(figure)) {
      watcher.unobserve(figure);
      started.find((each) => each.figure === figure).load();
    }
  };
  // Below the first screen: loaded when near the viewport or when idle, so that a printout has them.
  const watcher = new IntersectionObserver(
    (entries) => entries.filter(({ isIntersecting }) => isIntersecting).forEach(({ target }) => load(target)),
    { rootMargin: "400px" },
  );
  figures.forEach((figure) => watcher.observe(figure));
  whenIdle(() => waiting.forEach(load));
  return {
    show: (span) => started.forEach((each) => each.show(span)),
    setZone: (zone) => started.forEach((each) => each.setZone(zone)),
  };
}

function whenIdle(callback) {
  const wait = globalThis.requestIdleCallback ?? ((later) => setTimeout(later, 500));
  const begin = () => wait(callback);
  if (document.readyState === "complete") {
    begin();
  } else {
    addEventListener("load", begin, { once: true });
  }
}

class LatencyChart {
  constructor(figure) {
    this.figure = figure;
    this.box = figure.querySelector(".chart-box");
    this.url = figure.dataset.url;
    this.current = null;
    this.zone = PAGE_ZONE;
    this.chart = null;
    this.isWanted = false;
  }

  async load() {
    this.isWanted = true;
    this.box.querySelector(".chart-notice")?.remove();
    this.asking?.abort();
    this.asking = new AbortController();
    try {
      this.draw(await getJson(this.url, { signal: this.asking.signal }));
    } catch (error) {
      if (error.name === "ApiProblem") {
        showProblem(this.box, error.message, () => this.load());
      } else if (error.name !== "AbortError") {
        throw error;
      }
    }
  }

  show(span) {
    const range = { from: span?.from ?? null, to: span?.to ?? null };
    this.url = setParameters(this.url, range);
    for (const link of this.figure.querySelectorAll("[data-csv], [data-image]")) {
      link.href = setParameters(link.href, range);
    }
    if (this.isWanted) {
      this.load();
    }
  }

  setZone(zone) {
    this.zone = zone;
    this.chart?.redraw();
  }

  draw(answer) {
    this.answer = answer;
    this.prepared = this.prepare(answer);
    this.current = null;
    if (answer.columns.length === 0) {
      showProblem(this.box, "No data in this time range.");
      this.box.dataset.drawn = "true";
      return;
    }
    if (this.chart !== null) {
      this.chart.redraw();
      return;
    }
    this.chart = startChart(this.box, (look) => this.build(look));
    // The history of the page zooms, and these charts with it.
    this.joined = join(this.box, { kind: "time", getAxis: () => readAxis(this.chart.getChart()) });
    this.listen();
  }

  select(current) {
    this.current = current;
    this.chart.getChart().draw();
    this.joined.point(current === null ? null : this.columnOf(current).at);
    if (current !== null) {
      this.figure.querySelector(".chart-readout").textContent = this.describe(current);
    }
  }

  listen() {
    const canvas = this.box.querySelector("canvas");
    const pixelOf = ({ clientX, clientY }) => {
      const bounds = canvas.getBoundingClientRect();
      return { x: clientX - bounds.left, y: clientY - bounds.top, scales: this.chart.getChart().scales };
    };
    canvas.addEventListener("pointermove", (event) => this.select(this.find(pixelOf(event))));
    canvas.addEventListener("pointerleave", () => this.select(null));
    canvas.addEventListener("click", (event) => this.open(this.find(pixelOf(event))));
    this.box.addEventListener("focus", () => this.select(this.current ?? this.last()));
    this.box.addEventListener("blur", () => this.select(null));
    this.box.addEventListener("keydown", (event) => {
      if (event.target !== this.box) {
        return;
      }
      const next = this.move(event.key);
      if (next !== null) {
        event.preventDefault();
        this.select(next);
      } else if (event.key === "Enter" && this.current !== null) {
        event.preventDefault();
        this.open(this.current);
      }
    });
  }

  open(current) {
    const { runId, runs } = this.columnOf(current);
    if (runs === 1) {
      location.assign(`/runs/${runId}/`);
    }
  }
}

class Fan extends LatencyChart {
  constructor(figure) {
    super(figure);
    this.names = new LineNames(figure, [], () => {
      this.prepared = this.prepare(this.answer);
      this.chart.redraw();
    });
  }

  prepare({ columns }) {
    this.names.names = prepareFan(columns, {}).lines.map(({ place, label }) => ({ id: place, name: label }));
    return prepareFan(columns, { hidden: this.names.hidden });
  }

  build({ colors, isNarrow }) {
    const { rw, direction } = this.figure.dataset;
    return buildFan(this.prepared, { colors, style: styleOf({ rw, direction }), look: { isNarrow, zone: this.zone }, getState: () => this.current, names: this.names });
  }

  describe(index) {
    return describeColumn(this.prepared.marks[index], { index, count: this.prepared.marks.length, zone: this.zone });
  }

  find({ x, scales }) {
    const apart = ({ at }) => Math.abs(scales.x.getPixelForValue(at) - x);
    return this.prepared.marks.reduce((best, mark, index, marks) => (apart(mark) < apart(marks[best]) ? index : best), 0);
  }

  last() {
    return this.prepared.marks.length - 1;
  }

  move(key) {
    return moveBy(key, this.current ?? this.last(), this.prepared.marks.length);
  }

  columnOf(index) {
    return this.prepared.marks[index];
  }
}

class HeatMap extends LatencyChart {
  constructor(figure) {
    super(figure);
    this.drawLegend();
    onThemeChange(() => this.drawLegend());
  }

  prepare(answer) {
    return prepareHeat(answer, {});
  }

  build({ colors, isNarrow }) {
    return buildHeat(this.prepared, { colors, look: { isNarrow, zone: this.zone }, getState: () => this.current });
  }

  describe(cell) {
    return describeCell(this.prepared, cell, this.zone);
  }

  find(pixel) {
    return findCell(this.prepared, pixel);
  }

  last() {
    const column = this.prepared.columns.length - 1;
    const { counts } = this.prepared.columns[column];
    return { column, row: counts.indexOf(Math.max(...counts)) };
  }

  move(key) {
    return moveCell(this.prepared, this.current ?? this.last(), key);
  }

  columnOf(cell) {
    return this.prepared.columns[cell.column];
  }

  drawLegend() {
    const canvas = this.figure.querySelector("[data-heat-scale]");
    canvas.width = LEGEND_STEPS;
    canvas.height = 1;
    const ctx = canvas.getContext("2d");
    const isDark = isDarkPaper(readColors().paper);
    for (let step = 0; step < LEGEND_STEPS; step += 1) {
      ctx.fillStyle = colorOf(MINIMUM_SHARE ** (1 - step / (LEGEND_STEPS - 1)), isDark);
      ctx.fillRect(step, 0, 1, 1);
    }
  }
}
