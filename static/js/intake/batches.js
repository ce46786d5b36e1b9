// Groups files into upload batches and describes their results: pure.

// As in benchapp.fio.logs; tests/data/log_names.json tests both.
const LOG_NAME = /^(?:([^/\\\x00-\x1f\x7f]{1,200})_)?(bw|iops|lat|clat|slat|clat_hist)(?:\.([0-9]{1,6}))?\.log$/u;
// Files next to outputs that are not outputs.
const NO_OUTPUT = /\.(?:fio|err|sh|md)$/i;

/**
 * Pair fio logs with their outputs, folder by folder, as the server does.
 * files: {name, folder, …}, folder "" if unknown.
 * Returns batches, {output, logs}, in the order of the outputs, and unmatched logs, {file, reason}.
 */
export function makeBatches(files) {
  const batches = [];
  const unmatched = [];
  for (const inFolder of groupByFolder(files)) {
    const logs = inFolder.filter((file) => splitLogName(plainName(file.name)) !== null);
    const own = inFolder.filter((file) => !logs.includes(file)).map((output) => ({ output, logs: [] }));
    const candidates = own.filter(({ output }) => own.length === 1 || !NO_OUTPUT.test(plainName(output.name)));
    const byStem = groupByStem(candidates);
    for (const log of logs) {
      const reason = placeLog(log, candidates, byStem);
      if (reason !== null) {
        unmatched.push({ file: log, reason });
      }
    }
    batches.push(...own);
  }
  return { batches, unmatched };
}

/** Parse the name of a fio log: {stem, kind, job}; null for other names. */
export function splitLogName(name) {
  const match = LOG_NAME.exec(name);
  return match && { stem: match[1] ?? "", kind: match[2], job: match[3] === undefined ? null : Number(match[3]) };
}

/** Hidden files are skipped, as on the server. */
export function isHidden(name) {
  return name.startsWith(".");
}

/** Summarize the rows: "12 files: 3 stored (4 runs), 1 already uploaded, 8 queued". */
export function summarize(rows) {
  const count = (...states) => rows.filter((row) => states.includes(row.state)).length;
  const runs = rows.reduce((sum, row) => sum + (row.state === "stored" ? row.runs : 0), 0);
  const parts = [
    [count("stored"), `stored (${runs === 1 ? "1 run" : `${runs} runs`})`],
    [count("known"), "already uploaded"],
    [count("rejected", "refused"), "rejected"],
    [count("failed"), "failed"],
    [count("canceled"), "canceled"],
    [count("waiting"), "processing"],
    [count("sending"), "uploading"],
    [count("queued"), "queued"],
    [count("ready", "previewing"), "ready"],
    [count("problem"), count("problem") === 1 ? "with a problem" : "with problems"],
  ];
  const counts = parts.filter(([number]) => number > 0).map(([number, label]) => `${number} ${label}`);
  return `${rows.length === 1 ? "1 file" : `${rows.length} files`}: ${counts.join(", ")}`;
}

/** Describe the button that uploads: {label, isDisabled}. Files with a problem are not uploaded. */
export function describeUpload(rows) {
  const count = (...states) => rows.filter(({ state }) => states.includes(state)).length;
  const [ready, problems] = [count("ready", "previewing"), count("problem")];
  const label = ready > 0 && problems > 0 ? `Upload ${ready} of ${ready + problems} files` : "Upload";
  return { label, isDisabled: ready === 0 && problems > 0 };
}

/** Label and badge class of each state. */
export const STATES = {
  ready: { label: "ready", kind: "" },
  problem: { label: "problem", kind: "bad" },
  previewing: { label: "previewing", kind: "waiting" },
  queued: { label: "queued", kind: "" },
  sending: { label: "uploading", kind: "waiting" },
  waiting: { label: "accepted", kind: "waiting" },
  stored: { label: "stored", kind: "good" },
  known: { label: "already uploaded", kind: "" },
  rejected: { label: "rejected", kind: "bad" },
  refused: { label: "rejected", kind: "bad" },
  failed: { label: "failed", kind: "bad" },
  canceled: { label: "canceled", kind: "" },
};

/** Convert a submission of the API: {state, detail, code, runs}. */
export function readSubmission(submission, { isKnown = false } = {}) {
  const runs = submission.runs ?? [];
  if (submission.state === "rejected") {
    const { code = "", detail = "" } = submission.reason ?? {};
    return { state: "rejected", code, detail, runs };
  }
  if (submission.state === "stored") {
    return { state: isKnown ? "known" : "stored", code: "", detail: "", runs };
  }
  return { state: "waiting", code: "", detail: "processed within seconds", runs };
}

/** Return the results of the members of an archive, and of its logs; null for the result of a file itself. */
export function listMembers(name, results) {
  return results.some((result) => result.name.startsWith(`${name}/`)) ? results : null;
}

/** Convert the previews of members as readPreview does; "problem" if none of them would be stored. */
export function readMembersPreview(results) {
  const members = results.map((result) => ({ name: result.name, ...readPreview(result) }));
  const state = members.some((member) => member.state === "ready") ? "ready" : "problem";
  return { state, code: "", detail: "", preview: { members } };
}

/** Convert the preview of a file: {state, code, detail, preview}; "problem" if the file would be rejected. */
export function readPreview({ status, code, detail, series, omitted, state }) {
  if (series !== null) {
    return { state: "ready", code: "", detail: "", preview: { series, omitted, isKnown: state === "known" } };
  }
  // Without a preview nothing is known about the file.
  return { state: status === 503 ? "ready" : "problem", code, detail, preview: null };
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

function groupByStem(batches) {
  const byStem = new Map();
  for (const batch of batches) {
    const name = plainName(batch.output.name);
    const stem = name.lastIndexOf(".") > 0 ? name.slice(0, name.lastIndexOf(".")) : name;
    byStem.set(stem, [...(byStem.get(stem) ?? []), batch]);
  }
  return byStem;
}

// Adds the log to its batch, or returns why there is none.
function placeLog(log, candidates, byStem) {
  const stem = listPrefixes(splitLogName(plainName(log.name)).stem).find((prefix) => byStem.has(prefix));
  const named = byStem.get(stem) ?? [];
  if (named.length > 1) {
    return `fio log matches ${named.length} outputs named ${stem}`;
  }
  const batch = named[0] ?? (candidates.length === 1 ? candidates[0] : undefined);
  if (batch !== undefined) {
    batch.logs.push(log);
    return null;
  }
  return candidates.length === 0
    ? "fio log without an output: add both together"
    : `fio log does not match any of ${candidates.length} outputs`;
}

// Longest first.
function listPrefixes(stem) {
  // bench-fio writes randread-16-1.json beside randread-iodepth-16-numjobs-1_bw.1.log.
  const prefixes = [stem, stem.replace(/-(?:iodepth|numjobs)-(?=\d)/g, "-")];
  for (let place = stem.length - 1; place > 0; place -= 1) {
    if ("_.-".includes(stem[place])) {
      prefixes.push(stem.slice(0, place));
    }
  }
  return prefixes;
}

function plainName(name) {
  return name.replace(/\.(?:gz|xz|bz2|zst)$/i, "");
}
