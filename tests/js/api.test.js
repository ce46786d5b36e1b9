import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { ApiProblem, getJson, getNewerPage, postJson } from "../../static/js/site/api.js";

const fetchOfNode = globalThis.fetch;

afterEach(() => {
  globalThis.fetch = fetchOfNode;
});

function answerWith(body, { status = 200, headers = {} } = {}) {
  globalThis.fetch = async () => new Response(body, { status, headers });
}

test("a good answer is its JSON", async () => {
  answerWith('{"points": []}');

  assert.deepEqual(await getJson("/x"), { points: [] });
});

test("a document is posted as JSON with the token against forgery", async () => {
  const sent = [];
  globalThis.fetch = async (url, options) => {
    sent.push([url, options.method, options.headers["Content-Type"], options.headers["X-CSRFToken"], options.body]);
    return new Response('{"url": "/y"}', { status: 201 });
  };

  assert.deepEqual(await postJson("/x", { a: 1 }, { csrfToken: "t" }), { url: "/y" });
  assert.deepEqual(sent, [["/x", "POST", "application/json", "t", '{"a":1}']]);
});

test("an unchanged page is asked for by its ETag, and is none", async () => {
  const sent = [];
  globalThis.fetch = async (url, { headers }) => {
    sent.push([url, headers["If-None-Match"]]);
    return new Response(null, { status: 304 });
  };

  assert.equal(await getNewerPage("/x", 'W/"1"'), null);
  assert.deepEqual(sent, [["/x", 'W/"1"']]);
});

test("a page that moved names its new place, and a form to sign in is none", async () => {
  const answerFrom = (url) => {
    globalThis.fetch = async () => ({ ok: true, redirected: true, status: 200, url, headers: new Headers(), text: async () => "" });
  };

  answerFrom("http://server/hosts/new/");
  assert.deepEqual(await getNewerPage("/hosts/old/", '""'), { movedTo: "http://server/hosts/new/" });
  answerFrom("http://server/sign-in/?next=/hosts/old/");
  await assert.rejects(getNewerPage("/hosts/old/", '""'), { isSignedOut: true });
});

test("no answer at all is said in words", async () => {
  globalThis.fetch = async () => {
    throw new TypeError("Failed to fetch");
  };

  await assert.rejects(getJson("/x"), { name: "ApiProblem", message: /cannot be reached/ });
});

test("a truncated response is reported", async () => {
  answerWith('{"points": [');

  await assert.rejects(getJson("/x"), { name: "ApiProblem", message: /incomplete/ });
});

test("the detail of a problem document is shown", async () => {
  answerWith('{"detail": "from: this is no time"}', { status: 400 });

  await assert.rejects(getJson("/x"), { message: /status 400.*from: this is no time/ });
});

test("a signed-out user is reported", async () => {
  answerWith("", { status: 401 });

  await assert.rejects(getJson("/x"), (error) => error instanceof ApiProblem && error.isSignedOut);
});

test("a starting server suggests to try again", async () => {
  answerWith("<html>", { status: 503 });

  await assert.rejects(getJson("/x"), { message: /Try again/ });
});

test("a rate limit reports the time to wait", async () => {
  answerWith("", { status: 429, headers: { "Retry-After": "42" } });

  await assert.rejects(getJson("/x"), { message: /Too many requests\. Try again in 42 s/ });
});
