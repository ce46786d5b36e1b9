// Which files go together to the server, and how what became of them is said: pure.

// As benchapp.fio.logs has it; tests/data/log_names.json holds both together.
const LOG_NAME = /^(?:([^/\\\x00-\x1f\x7f]{1,200})_)?(bw|iops|lat|clat|slat|clat_hist)(?:\.([0-9]{1,6}))?\.log$/u;
// What lies beside outputs and is none.
const NO_OUTPUT = /\.(?:fio|err|sh|md)$/i;

/**
 * Put fio's logs to the output that they belong to, folder by folder, as the server does.
 * files: {name, folder, …}, folder "" where the browser does not tell it.
 * Returns parcels, {output, logs}, in the order of the outputs, and what stays alone, {file, reason}.
 */
export function makeParcels(files) {
  const parcels = [];
  const alone = [];
  for (const inFolder of groupByFolder(files)) {
    const logs = inFolder.filter((file) => splitLogName(plainName(file.name)) !== null);
    const own = inFolder.filter((file) => !logs.includes(file)).map((output) => ({ output, logs: [] }));
    const candidates = own.filter(({ output }) => own.length === 1 || !NO_OUTPUT.test(plainName(output.name)));
    const byStem = groupByStem(candidates);
    for (const log of logs) {
      const reason = placeLog(log, candidates, byStem);
      if (reason !== null) {
        alone.push({ file: log, reason });
      }
    }
    parcels.push(...own);
  }
  return { parcels, alone };
}

/** What the name of a log of fio says, {stem, kind, job}; null for any other name. */
export function splitLogName(name) {
  const match = LOG_NAME.exec(name);
  return match && { stem: match[1] ?? "", kind: match[2], job: match[3] === undefined ? null : Number(match[3]) };
}

/** A file of which nothing is to be sent: hidden, as on the server. */
export function isHidden(name) {
  return name.startsWith(".");
}

/** Count what became of the rows, in words: "12 files: 3 stored (4 runs), 1 already there, 8 to go". */
export function summarize(rows) {
  const count = (...states) => rows.filter((row) => states.includes(row.state)).length;
  const runs = rows.reduce((sum, row) => sum + (row.state === "stored" ? row.runs : 0), 0);
  const parts = [
    [count("stored"), `stored (${runs === 1 ? "1 run" : `${runs} runs`})`],
    [count("known"), "already there"],
    [count("rejected"), "rejected"],
    [count("refused", "failed"), "refused or not sent"],
    [count("cancelled"), "cancelled"],
    [count("waiting"), "being worked in"],
    [count("sending"), "being sent"],
    [count("ready", "queued"), "to go"],
  ];
  const said = parts.filter(([number]) => number > 0).map(([number, words]) => `${number} ${words}`);
  return `${rows.length === 1 ? "1 file" : `${rows.length} files`}: ${said.join(", ")}`;
}

/** How the page says a state; the class is that of the badge. */
export const STATES = {
  ready: { words: "ready", kind: "" },
  queued: { words: "in the queue", kind: "" },
  sending: { words: "being sent", kind: "waiting" },
  waiting: { words: "taken in", kind: "waiting" },
  stored: { words: "stored", kind: "good" },
  known: { words: "already there", kind: "" },
  rejected: { words: "rejected", kind: "bad" },
  refused: { words: "refused", kind: "bad" },
  failed: { words: "not sent", kind: "bad" },
  cancelled: { words: "cancelled", kind: "" },
};

/** What the API's row of a submission means for the page: {state, detail, code, runs}. */
export function readSubmission(submission, { isKnown = false } = {}) {
  const runs = submission.runs ?? [];
  if (submission.state === "rejected") {
    const { code = "", detail = "" } = submission.reason ?? {};
    return { state: "rejected", code, detail, runs };
  }
  if (submission.state === "stored") {
    return { state: isKnown ? "known" : "stored", code: "", detail: "", runs };
  }
  return { state: "waiting", code: "", detail: "a worker takes it within seconds", runs };
}

function groupByFolder(files) {
  const folders = new Map();
  for (const file of files) {
    const folder = folders.get(file.folder) ?? [];
    folder.push(file);
    folders.set(file.folder, folder);
  }
  return folders.values();
}

function groupByStem(parcels) {
  const byStem = new Map();
  for (const parcel of parcels) {
    const name = plainName(parcel.output.name);
    const stem = name.lastIndexOf(".") > 0 ? name.slice(0, name.lastIndexOf(".")) : name;
    byStem.set(stem, [...(byStem.get(stem) ?? []), parcel]);
  }
  return byStem;
}

// Gives the log to its parcel, or returns why there is none.
function placeLog(log, candidates, byStem) {
  const stem = listPrefixes(splitLogName(plainName(log.name)).stem).find((prefix) => byStem.has(prefix));
  const named = byStem.get(stem) ?? [];
  if (named.length > 1) {
    return `${named.length} outputs beside it are named ${stem}`;
  }
  const parcel = named[0] ?? (candidates.length === 1 ? candidates[0] : undefined);
  if (parcel !== undefined) {
    parcel.logs.push(log);
    return null;
  }
  return candidates.length === 0
    ? "a log of fio without an output beside it: drop them together"
    : `a log of fio, and none of the ${candidates.length} outputs beside it begins its name`;
}

// The longest first.
function listPrefixes(stem) {
  const prefixes = [stem];
  for (let place = stem.length - 1; place > 0; place -= 1) {
    if ("_.-".includes(stem[place])) {
      prefixes.push(stem.slice(0, place));
    }
  }
  return prefixes;
}

function plainName(name) {
  return name.endsWith(".gz") ? name.slice(0, -3) : name;
}
