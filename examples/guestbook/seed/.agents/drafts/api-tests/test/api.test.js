import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openLog } from "../src/db/log.js";
import { createStore } from "../src/db/store.js";
import { addApi } from "../src/entries/api.js";
import { createRouter } from "../src/http/router.js";

let folder;
let store;
let server;
let url;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "guestbook-api-"));
  store = await createStore(await openLog(join(folder, "book.jsonl")));
  const router = createRouter();
  addApi(router, store);
  server = createServer(router.handle);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${server.address().port}`;
});
after(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await store.close();
  await rm(folder, { recursive: true, force: true });
});

const get = (path) => fetch(url + path);
const post = (path, body) =>
  fetch(url + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
const sign = async (author) => (await post("/api/entries", { author, message: `Hello from ${author}` })).json();

test("an entry that was sent is listed", async () => {
  const response = await post("/api/entries", { author: "  Ada  ", message: "Hello\r\nthere" });
  assert.equal(response.status, 201);
  const { entry, deleteKey } = await response.json();
  assert.ok(deleteKey.length > 20);
  const { entries } = await (await get("/api/entries")).json();
  assert.deepEqual(entries[0], entry);
  assert.equal(entry.author, "Ada");
  assert.equal(entry.message, "Hello\nthere");
});

test("lists are paged", async () => {
  for (let n = 0; n < 5; n += 1) await sign(`Guest ${n}`);
  const list = await (await get("/api/entries?page=2&perPage=2")).json();
  assert.equal(list.page, 2);
  assert.deepEqual(list.entries.map((entry) => entry.author), ["Guest 2", "Guest 1"]);
});

test("all problems of an entry are named together", async () => {
  const response = await post("/api/entries", { author: "x".repeat(61), message: " ", colour: "plaid" });
  assert.equal(response.status, 422);
  assert.match(response.headers.get("content-type"), /problem\+json/);
  assert.deepEqual(Object.keys((await response.json()).problems).sort(), ["author", "colour", "message"]);
});

for (const [what, body, status] of [
  ["no body", "", 422],
  ["a body that is not JSON", "{", 400],
  ["JSON that is no object", "null", 422],
  ["a body of 100 KB", JSON.stringify({ message: "x".repeat(100_000) }), 413],
]) {
  test(`${what} is answered with ${status}`, async () => {
    assert.equal((await fetch(`${url}/api/entries`, { method: "POST", body })).status, status);
  });
}

test("a page that is no number is answered with 400", async () => {
  assert.equal((await get("/api/entries?page=first")).status, 400);
  assert.equal((await get("/api/entries?page=0")).status, 400);
});

test("an entry is taken back with its key, and only with it", async () => {
  const { entry, deleteKey } = await sign("Bob");
  const remove = (headers) => fetch(`${url}/api/entries/${entry.id}`, { method: "DELETE", headers });
  assert.equal((await remove({})).status, 403);
  assert.equal((await remove({ "x-delete-key": "guess" })).status, 403);
  assert.equal((await remove({ "x-delete-key": deleteKey })).status, 204);
  assert.equal((await remove({ "x-delete-key": deleteKey })).status, 404);
});

test("hearts are counted", async () => {
  const { entry } = await sign("Cem");
  assert.deepEqual(await (await post(`/api/entries/${entry.id}/hearts`)).json(), { hearts: 1 });
  assert.equal((await post("/api/entries/nobody/hearts")).status, 404);
});

test("health says how many entries there are", async () => {
  const health = await (await get("/health")).json();
  assert.equal(health.status, "ok");
  assert.equal(health.entries, store.list().total);
});

test("an unknown address is 404, a wrong method 405 with what is allowed", async () => {
  assert.equal((await get("/api/nothing")).status, 404);
  const response = await fetch(`${url}/api/entries`, { method: "DELETE" });
  assert.equal(response.status, 405);
  assert.equal(response.headers.get("allow"), "GET, POST");
});
