// Data of a history chart: the whole history and, if downsampled, the visible range at higher resolution.
import { getJson } from "../../site/api.js";
import { readHistory } from "./history.js";
import { writeMoment } from "../shared/zoom.js";

/** Data of one figure: embedded in the page; of another range from the API. */
export class HistoryNumbers {
  constructor(figure) {
    this.url = figure.dataset.url;
    const harmless = figure.dataset.harmless.split(" ");
    this.isDoubtful = (badges) => badges.some((code) => !harmless.includes(code));
    const { document: whole, detail } = figure.dataset;
    this.whole = this.readEmbedded(whole);
    this.detail = detail === undefined ? null : this.readEmbedded(detail);
  }

  /** The best available data for the visible range. */
  get shown() {
    return this.detail ?? this.whole;
  }

  /** Use the downsampled data until the data of another range is loaded. */
  coarsen() {
    if (this.whole.isThinned) {
      this.detail = null;
    }
  }

  /** Load a range (null: all) at higher resolution; returns whether there is any. Throws ApiProblem, AbortError. */
  async refine(span) {
    this.asking?.abort();
    // Readers of a shared study have no API access.
    if (span === null || !this.whole.isThinned || this.url === "") {
      return false;
    }
    this.asking = new AbortController();
    this.detail = this.read(await getJson(this.makeAddress(span), { signal: this.asking.signal }));
    return true;
  }

  readEmbedded(id) {
    return this.read(JSON.parse(document.getElementById(id).textContent));
  }

  read(answer) {
    return readHistory(answer, { isDoubtful: this.isDoubtful });
  }

  makeAddress({ from, to }) {
    const span = new URLSearchParams({ ...(from && { from }), ...(to && { to }) });
    return `${this.url}&${span}`;
  }
}

/** Format a view for the API, rounded outward to seconds. */
export function writeSpan({ from, to }) {
  return { from: writeMoment(Math.floor(from / 1000) * 1000), to: writeMoment(Math.ceil((to + 1) / 1000) * 1000) };
}
