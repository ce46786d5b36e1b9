import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { afterEach, test } from "node:test";
import { postForm } from "../../static/js/site/api.js";
import {
  describeUpload,
  isHidden,
  listMembers,
  makeBatches,
  readMembersPreview,
  readPreview,
  readSubmission,
  splitLogName,
  summarize,
} from "../../static/js/intake/batches.js";
import { packBatch } from "../../static/js/intake/packed_batch.js";

const named = (...names) => names.map((name) => ({ name, folder: "" }));

function describe({ batches, unmatched }) {
  return [
    batches.map(({ output, logs }) => [output.name, logs.map((log) => log.name)]),
    unmatched.map(({ file }) => file.name),
  ];
}

const names = JSON.parse(readFileSync(new URL("../data/log_names.json", import.meta.url), "utf8"));
for (const { name, stem, kind, job } of names) {
  test(`the server's table of names of logs holds: ${JSON.stringify(name)}`, () => {
    assert.deepEqual(splitLogName(name), stem === null ? null : { stem, kind, job });
  });
}

const cases = [
  ["the only output", ["any.json", "job_bw.1.log"], [["any.json", ["job_bw.1.log"]]], []],
  [
    "the output that begins its name",
    ["read.json", "read_bw.1.log", "write.json"],
    [
      ["read.json", ["read_bw.1.log"]],
      ["write.json", []],
    ],
    [],
  ],
  [
    "the longest such output",
    ["d-1.json", "d-16.json", "d-16_bw.1.log"],
    [
      ["d-1.json", []],
      ["d-16.json", ["d-16_bw.1.log"]],
    ],
    [],
  ],
  [
    "the output of bench-fio with the same depth",
    ["randread-1-1.json", "randread-16-1.json", "randread-iodepth-16-numjobs-1_bw.1.log"],
    [
      ["randread-1-1.json", []],
      ["randread-16-1.json", ["randread-iodepth-16-numjobs-1_bw.1.log"]],
    ],
    [],
  ],
  [
    "no output whose name goes on",
    ["d-1.json", "other.json", "d-16_bw.1.log"],
    [
      ["d-1.json", []],
      ["other.json", []],
    ],
    ["d-16_bw.1.log"],
  ],
  [
    "the output and not the job file beside it",
    ["run.fio", "run.json", "x_lat.1.log.gz"],
    [
      ["run.fio", []],
      ["run.json", ["x_lat.1.log.gz"]],
    ],
    [],
  ],
  [
    "none of two of one name",
    ["a.json", "a.txt", "a_bw.log"],
    [
      ["a.json", []],
      ["a.txt", []],
    ],
    ["a_bw.log"],
  ],
  ["nothing where there is no output", ["a_bw.log"], [], ["a_bw.log"]],
];

for (const [words, names, batches, unmatched] of cases) {
  test(`a log goes to ${words}`, () => {
    assert.deepEqual(describe(makeBatches(named(...names))), [batches, unmatched]);
  });
}

test("a log goes to no output of another folder", () => {
  const files = [
    { name: "a.json", folder: "one" },
    { name: "a_bw.log", folder: "two" },
  ];

  assert.equal(makeBatches(files).unmatched.length, 1);
});

test("a name that ends like a log's but is none stays an output", () => {
  assert.deepEqual(describe(makeBatches(named("fio_randread.log"))), [[["fio_randread.log", []]], []]);
});

test("a leading dot hides a file", () => {
  assert.deepEqual([isHidden(".git"), isHidden("a.json")], [true, false]);
});

test("the summary counts each state that occurs", () => {
  const rows = [
    { state: "stored", runs: 3 },
    { state: "stored", runs: 1 },
    { state: "known", runs: 1 },
    { state: "refused", runs: 0 },
    { state: "queued", runs: 0 },
  ];

  assert.equal(summarize(rows), "5 files: 2 stored (4 runs), 1 already uploaded, 1 rejected, 1 queued");
  assert.equal(summarize([{ state: "stored", runs: 1 }]), "1 file: 1 stored (1 run)");
});

test("files with a problem are counted apart from those that are ready, and not uploaded", () => {
  const [ready, problem] = [{ state: "ready" }, { state: "problem" }];

  assert.equal(summarize([ready, problem]), "2 files: 1 ready, 1 with a problem");
  assert.deepEqual(
    [[], [ready, ready], [ready, problem, ready], [problem]].map(describeUpload),
    [
      { label: "Upload", isDisabled: false },
      { label: "Upload", isDisabled: false },
      { label: "Upload 2 of 3 files", isDisabled: false },
      { label: "Upload", isDisabled: true },
    ],
  );
});

test("a preview of a file that would be rejected is a problem, one that the server could not make is none", () => {
  const read = (answer) => readPreview({ series: null, omitted: 0, detail: "why", ...answer }).state;

  assert.equal(read({ status: 422, code: "no-report" }), "problem");
  assert.equal(read({ status: 413, code: "body-too-big" }), "problem");
  assert.equal(read({ status: 503, code: "busy" }), "ready");
  assert.equal(read({ status: 200, code: "", series: [] }), "ready");
});

test("the members of an archive are previewed one by one", () => {
  const results = [
    { name: "r.zip/a.json", status: 200, code: "", detail: "", series: [], omitted: 0, state: "known" },
    { name: "r.zip/b.txt", status: 422, code: "no-report", detail: "why", series: null },
  ];

  const { state, preview } = readMembersPreview(results);

  assert.equal(listMembers("a.json", results), null);
  assert.equal(listMembers("r.zip", results), results);
  assert.equal(state, "ready");
  assert.deepEqual(
    preview.members.map((member) => [member.name, member.state, member.detail, member.preview?.isKnown]),
    [
      ["r.zip/a.json", "ready", "", true],
      ["r.zip/b.txt", "problem", "why", undefined],
    ],
  );
  assert.equal(readMembersPreview(results.slice(1)).state, "problem");
});

test("a submission is stored, was there, is rejected with its reason, or waits", () => {
  const runs = [{ id: 7 }];
  const reason = { code: "no-report", detail: "no fio report found" };

  assert.deepEqual(readSubmission({ state: "stored", runs }), { state: "stored", code: "", detail: "", runs });
  assert.equal(readSubmission({ state: "stored", runs }, { isKnown: true }).state, "known");
  assert.deepEqual(readSubmission({ state: "rejected", reason }), { state: "rejected", ...reason, runs: [] });
  assert.equal(readSubmission({ state: "received" }).state, "waiting");
});

test("a large file is compressed, unless it is packed already", async () => {
  const limits = { body: 2 ** 30, unpacked: 2 ** 30 };
  const pack = async (...bytes) => {
    const content = new Uint8Array(2 ** 20);
    content.set(bytes);
    const files = [{ file: new Blob([content]), name: "a", folder: "" }];
    const fields = await packBatch(new FormData(), "file", { files, limits });
    return new Uint8Array(await fields.get("file").arrayBuffer());
  };

  assert.deepEqual([...(await pack(0x7b)).slice(0, 2)], [0x1f, 0x8b]);
  assert.equal((await pack(0x7b)).length < 2 ** 20, true);
  for (const bytes of [[0x1f, 0x8b], [0xfd, 0x37], [0x42, 0x5a], [0x28, 0xb5], [0x50, 0x4b]]) {
    assert.deepEqual([...(await pack(...bytes)).slice(0, 2)], bytes);
  }
});

// As much of an XMLHttpRequest as postForm uses; `ending` is the event that it answers with.
function answerWith({ status = 200, text = "{}", url = "http://x/uploads/add", ending = "load" } = {}) {
  globalThis.XMLHttpRequest = class extends EventTarget {
    upload = new EventTarget();
    status = status;
    responseText = text;
    responseURL = url;
    open() {}
    setRequestHeader() {}
    send() {
      const half = Object.assign(new Event("progress"), { lengthComputable: true, loaded: 1, total: 2 });
      this.upload.dispatchEvent(half);
      this.dispatchEvent(new Event(ending));
    }
    abort() {
      this.dispatchEvent(new Event("abort"));
    }
  };
}

afterEach(() => {
  delete globalThis.XMLHttpRequest;
});

test("a form that is taken is its JSON, and tells how far it is", async () => {
  answerWith({ text: '{"files": []}' });
  const shares = [];

  assert.deepEqual(await postForm("/x", null, { onProgress: (share) => shares.push(share) }), { files: [] });
  assert.deepEqual(shares, [0.5]);
});

test("a refused form speaks for itself, with its code", async () => {
  answerWith({ status: 413, text: '{"detail": "at most 8 MiB are taken", "code": "body-too-big"}' });

  await assert.rejects(postForm("/x", null), { message: "at most 8 MiB are taken", code: "body-too-big" });
});

test("a form that was led to the sign-in page was not taken", async () => {
  answerWith({ text: "<html>", url: "http://x/sign-in/?next=/uploads/add" });

  await assert.rejects(postForm("/x", null), (error) => error.isSignedOut);
});

test("a page instead of an answer is said in words", async () => {
  answerWith({ status: 502, text: "<html>" });

  await assert.rejects(postForm("/x", null), { message: /status 502/ });
});

test("a form that does not arrive is said in words", async () => {
  answerWith({ ending: "error" });

  await assert.rejects(postForm("/x", null), { message: /cannot be reached/ });
});

test("a stopped form ends as stopped", async () => {
  answerWith({ ending: "loadstart" });
  const stop = new AbortController();
  const sent = postForm("/x", null, { signal: stop.signal });

  stop.abort();

  await assert.rejects(sent, { name: "AbortError" });
});
