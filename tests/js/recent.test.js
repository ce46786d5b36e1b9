import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { forgetPages, listRecent, rememberPage } from "../../static/js/site/recent.js";

const ADDRESS = "http://localhost/hosts/";
const SECRET_PATHS = [
  "/setup/Xg1cO8/",
  "/reset-password/Xg1cO8/",
  "/confirm-address/Xg1cO8/",
  "/shared/Xg1cO8/",
  "/account/email/Xg1cO8/",
];

beforeEach(() => {
  const stored = new Map();
  globalThis.localStorage = {
    getItem: (key) => stored.get(key) ?? null,
    setItem: (key, value) => stored.set(key, value),
    removeItem: (key) => stored.delete(key),
  };
});

test("pages are listed newest first, without the present one", () => {
  rememberPage("Hosts", "/hosts/");
  rememberPage("Runs", "/runs/?host=db-01");
  rememberPage("Series", "/series/1/");

  assert.deepEqual(listRecent(ADDRESS).map((page) => page.url), ["/series/1/", "/runs/?host=db-01"]);
  forgetPages();
  assert.deepEqual(listRecent(ADDRESS), []);
});

test("an address that is a secret is neither remembered nor listed", () => {
  for (const path of SECRET_PATHS) {
    rememberPage("Create account", path);
  }
  assert.equal(localStorage.getItem("benchapp-recent"), null);

  // As an earlier version stored it.
  localStorage.setItem("benchapp-recent", JSON.stringify([{ title: "Create account", url: "/setup/Xg1cO8/" }]));
  assert.deepEqual(listRecent(ADDRESS), []);
});
