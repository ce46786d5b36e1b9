// Upload page: each output is sent separately, two at a time, with a row for progress and result.
import { getJson, postForm } from "../site/api.js";
import { describeUpload, listMembers, makeBatches, readMembersPreview, readPreview, readSubmission, summarize } from "./batches.js";
import { listChosen, listDropped } from "./dropped_files.js";
import { packBatch, BatchTooBig } from "./packed_batch.js";
import { makeParts, showButton, showResult, showShare } from "./batch_row.js";

const MOST_AT_ONCE = 2;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;
const SUMMARY_EVERY_MS = 500;

const form = document.querySelector("[data-upload-form]");
const input = form.querySelector("input[name=file]");
const zone = form.querySelector("[data-drop-zone]");
const uploadButton = form.querySelector("[data-upload]");
const previewButton = form.querySelector("[data-preview]");
const clearButton = form.querySelector("[data-clear]");
const section = document.querySelector("[data-batches]");
const body = section.querySelector("tbody");
const summary = section.querySelector("[data-summary]");
const limits = { body: Number(form.dataset.bodyLimit), unpacked: Number(form.dataset.unpackedLimit) };

let rows = [];
let isWatching = false;
let summaryTimer = null;

// --- rows ---

function addFiles(files) {
  const { batches, unmatched } = makeBatches(files);
  for (const { output, logs } of batches) {
    addRow(output, logs);
  }
  for (const { file, reason } of unmatched) {
    const row = addRow(file, []);
    row.isSendable = false;
    change(row, "refused", { detail: reason, code: "log-alone" });
  }
}

function addRow(file, logs) {
  const row = { file, logs, state: "ready", runs: 0, share: 0, detail: "", code: "", id: "", links: [], isSendable: true };
  row.parts = makeParts(row, () => press(row));
  rows.push(row);
  body.append(row.parts.line);
  change(row, "ready");
  return row;
}

function change(row, state, news = {}) {
  Object.assign(row, { detail: "", code: "", preview: null, ...news, state });
  showResult(row, form.dataset.errors);
  showButton(row);
  showSummary();
}

function showSummary() {
  section.hidden = rows.length === 0;
  clearButton.hidden = !rows.some(isFinished);
  showUploadButton();
  // Read by screen readers: not too often.
  summaryTimer ??= setTimeout(() => {
    summaryTimer = null;
    const text = rows.length === 0 ? "" : summarize(rows);
    if (summary.textContent !== text) {
      summary.textContent = text;
    }
  }, SUMMARY_EVERY_MS);
}

function showUploadButton() {
  const { label, isDisabled } = describeUpload(rows);
  if (isDisabled && document.activeElement === uploadButton) {
    // A disabled button would lose the focus.
    section.querySelector(".table-box").focus();
  }
  uploadButton.textContent = label;
  uploadButton.disabled = isDisabled;
}

function isFinished({ state }) {
  return ["stored", "known", "rejected", "refused", "canceled"].includes(state);
}

function remove(gone) {
  for (const row of gone) {
    row.parts.line.remove();
  }
  rows = rows.filter((row) => !gone.includes(row));
  showSummary();
}

function press(row) {
  if (["ready", "problem"].includes(row.state) || !row.isSendable) {
    remove([row]);
  } else if (row.state === "queued") {
    change(row, "canceled");
  } else if (row.state === "sending") {
    row.stop.abort();
  } else if (form.reportValidity()) {
    change(row, "queued", { share: 0, links: [] });
    sendNext();
  }
}

// --- sending ---

function sendNext() {
  while (rows.filter(({ state }) => state === "sending").length < MOST_AT_ONCE) {
    const row = rows.find(({ state }) => state === "queued");
    if (row === undefined) {
      return;
    }
    send(row).then(sendNext);
  }
}

async function send(row) {
  row.stop = new AbortController();
  change(row, "sending", { share: 0 });
  try {
    const batch = await packBatch(new FormData(form), input.name, { files: [row.file, ...row.logs], limits });
    row.stop.signal.throwIfAborted();
    const onProgress = (share) => showShare(row, share);
    const answer = await postForm(form.action, batch, { signal: row.stop.signal, onProgress });
    const members = listMembers(row.file.name, answer.files);
    if (members === null) {
      showAnswer(row, answer.files.find(({ name }) => name === row.file.name) ?? answer.files[0]);
    } else {
      showMembers(row, members);
    }
  } catch (error) {
    showFailure(row, error);
  }
}

// --- preview ---

// One after the other: the server parses each file while this page waits.
async function previewAll() {
  for (const row of rows.filter(canPreview)) {
    if (canPreview(row)) {
      await preview(row);
    }
  }
}

function canPreview({ state, isSendable }) {
  return ["ready", "problem"].includes(state) && isSendable;
}

async function preview(row) {
  change(row, "previewing");
  try {
    const batch = await packBatch(new FormData(form), input.name, { files: [row.file, ...row.logs], limits });
    batch.append(previewButton.name, previewButton.value);
    const answer = await postForm(form.action, batch);
    const members = listMembers(row.file.name, answer.files);
    const own = answer.files.find(({ name }) => name === row.file.name) ?? answer.files[0];
    showPreview(row, members === null ? readPreview(own) : readMembersPreview(members));
  } catch (error) {
    // Without an answer nothing is known about the file; a value of the form or the file itself is a problem.
    const isUnanswered = error.name === "ApiProblem" && error.code !== "form-invalid";
    showPreview(row, { state: isUnanswered ? "ready" : "problem", detail: error.message });
  }
}

// Unless the file was sent to be stored meanwhile.
function showPreview(row, { state, ...news }) {
  if (row.state === "previewing") {
    change(row, state, news);
  }
}

// What was previewed is no longer true for other values of the form.
function forgetPreviews() {
  for (const row of rows.filter(({ state }) => ["ready", "problem"].includes(state))) {
    change(row, "ready");
  }
}

// A row for each member, in place of the archive.
function showMembers(row, results) {
  for (const result of results) {
    const member = addRow({ ...row.file, name: result.name, file: { size: NaN } }, []);
    member.isSendable = false;
    row.parts.line.before(member.parts.line);
    showAnswer(member, result);
  }
  remove([row]);
}

function showAnswer(row, { status, code, detail, id, state }) {
  if (status >= 300) {
    change(row, "refused", { code, detail, share: 1 });
    return;
  }
  row.isKnown = status === 200;
  row.id = id;
  showState(row, { state });
}

function showFailure(row, error) {
  if (error.name === "AbortError") {
    change(row, "canceled", { share: 0 });
  } else if (error.name === "ApiProblem") {
    change(row, "failed", { detail: error.message, code: error.code === "form-invalid" ? "" : error.code, share: 0 });
  } else if (error instanceof BatchTooBig) {
    change(row, "refused", { detail: error.message, code: "body-too-big", share: 0 });
  } else {
    // The file was moved or changed after it was selected.
    change(row, "failed", { detail: `The file cannot be read: ${error.message}`, share: 0 });
  }
}

// --- results ---

function showState(row, submission) {
  const news = readSubmission(submission, { isKnown: row.isKnown });
  const upload = `/uploads/${row.id}/`;
  const links =
    news.runs.length === 1
      ? [{ address: `/runs/${news.runs[0].id}/`, text: `run ${news.runs[0].id}` }]
      : [{ address: upload, text: news.runs.length > 1 ? `${news.runs.length} runs` : "View upload" }];
  const isSettled = news.state !== "waiting" && submission.id !== undefined;
  change(row, isSettled ? news.state : "waiting", { ...news, runs: news.runs.length, links, share: 1 });
  if (!isSettled) {
    watch();
  }
}

// Poll one after the other, every 0.5 s at first, at most every 5 s without news.
async function watch() {
  if (isWatching) {
    return;
  }
  isWatching = true;
  let pause = FIRST_PAUSE_MS;
  for (;;) {
    await new Promise((resolve) => {
      setTimeout(resolve, pause);
    });
    const waiting = rows.filter(({ state }) => state === "waiting");
    if (waiting.length === 0) {
      break;
    }
    pause = (await askAll(waiting)) ? FIRST_PAUSE_MS : Math.min(pause * 1.5, LONGEST_PAUSE_MS);
  }
  isWatching = false;
}

// Returns whether any is completed.
async function askAll(waiting) {
  let isAnySettled = false;
  for (const row of waiting) {
    try {
      const submission = await getJson(`/api/v1/submissions/${row.id}`);
      if (submission.state !== "received") {
        isAnySettled = true;
        showState(row, submission);
      }
    } catch (error) {
      // The submission is stored; the next round polls again.
      change(row, "waiting", { detail: error.message });
      return false;
    }
  }
  return isAnySettled;
}

// --- selecting ---

function startChoosing() {
  // The list below replaces the field.
  input.required = false;
  input.addEventListener("change", () => {
    addFiles(listChosen(input));
    input.value = "";
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (rows.length === 0) {
      input.focus();
      input.click();
      return;
    }
    if (event.submitter === previewButton) {
      previewAll();
      return;
    }
    for (const row of rows.filter(({ state }) => ["ready", "previewing"].includes(state))) {
      change(row, "queued");
    }
    sendNext();
  });
  form.addEventListener("input", (event) => {
    if (event.target !== input) {
      forgetPreviews();
    }
  });
  clearButton.addEventListener("click", () => {
    remove(rows.filter(isFinished));
    input.focus();
  });
}

function startDropping() {
  const idle = zone.textContent;
  const show = (isOver) => {
    zone.classList.toggle("is-over", isOver);
    zone.textContent = isOver ? "Release to add the files." : idle;
  };
  zone.hidden = false;
  // The whole page accepts drops: otherwise the browser would open the file.
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    show(true);
  });
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) {
      show(false);
    }
  });
  document.addEventListener("drop", async (event) => {
    event.preventDefault();
    show(false);
    addFiles(await listDropped(event.dataTransfer));
  });
}

function startLeaving() {
  addEventListener("beforeunload", (event) => {
    if (rows.some(({ state }) => ["queued", "sending"].includes(state))) {
      event.preventDefault();
    }
  });
}

startChoosing();
startDropping();
startLeaving();
