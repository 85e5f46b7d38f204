import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { openLog } from "../src/db/log.js";
import { createStore } from "../src/db/store.js";

let folder;
let path;
let store;
let count;
const open = async () => createStore(await openLog(path), { newId: () => `e${++count}` });
const reopen = async () => {
  await store.close();
  store = await open();
};
const entry = (author, message = "Hello") => ({ author, place: "", message, colour: "sky" });
const authors = (options) => store.list(options).entries.map((one) => one.author);

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "guestbook-store-"));
  path = join(folder, "book.jsonl");
  count = 0;
  store = await open();
});
afterEach(async () => {
  await store.close();
  await rm(folder, { recursive: true, force: true });
});

test("entries come newest first, also after the store is opened again", async () => {
  for (const author of ["Ada", "Bob", "Cem"]) await store.add(entry(author));
  assert.deepEqual(authors(), ["Cem", "Bob", "Ada"]);
  await reopen();
  assert.deepEqual(authors(), ["Cem", "Bob", "Ada"]);
});

test("every entry is on exactly one page", async () => {
  for (let n = 1; n <= 7; n += 1) await store.add(entry(`A${n}`));
  const pages = [1, 2, 3].map((page) => authors({ page, perPage: 3 }));
  assert.deepEqual(pages, [["A7", "A6", "A5"], ["A4", "A3", "A2"], ["A1"]]);
  assert.equal(store.list({ perPage: 3 }).pages, 3);
  assert.deepEqual(authors({ page: 99, perPage: 3 }), ["A1"]);
});

test("only who wrote an entry can take it back", async () => {
  const { entry: mine, deleteKey } = await store.add(entry("Ada"));
  assert.equal(await store.remove(mine.id, "guess"), "forbidden");
  assert.equal(await store.remove(mine.id, undefined), "forbidden");
  assert.equal(await store.remove(mine.id, deleteKey), "removed");
  assert.equal(await store.remove(mine.id, deleteKey), "absent");
  await reopen();
  assert.equal(store.list().total, 0);
});

test("delete keys are neither listed nor written down", async () => {
  const { deleteKey } = await store.add(entry("Ada"));
  assert.ok(!JSON.stringify(store.list()).includes("keyHash"));
  assert.ok(!(await readFile(path, "utf8")).includes(deleteKey));
});

test("hearts count up and stay", async () => {
  const { entry: mine } = await store.add(entry("Ada"));
  assert.equal(await store.heart(mine.id), 1);
  assert.equal(await store.heart(mine.id), 2);
  assert.equal(await store.heart("nobody"), null);
  await reopen();
  assert.equal(store.list().entries[0].hearts, 2);
});

test("compaction keeps every entry, and what is added meanwhile", async () => {
  const { entry: mine, deleteKey } = await store.add(entry("Ada"));
  for (let n = 0; n < 20; n += 1) await store.heart(mine.id);
  const before = (await readFile(path, "utf8")).length;
  await Promise.all([store.add(entry("Bob")), store.compact(), store.add(entry("Cem"))]);
  assert.ok((await readFile(path, "utf8")).length < before);
  await reopen();
  assert.deepEqual(authors(), ["Cem", "Bob", "Ada"]);
  assert.equal(store.list().entries[2].hearts, 20);
  assert.equal(await store.remove(mine.id, deleteKey), "removed");
});

test("a log of format 1 is brought up to date", async () => {
  await store.close();
  const old = { id: "old", ...entry("Grace"), createdAt: "2020-01-01T00:00:00.000Z", keyHash: "00".repeat(32) };
  await writeFile(path, `${JSON.stringify({ type: "added", entry: old })}\n`);
  store = await open();
  assert.equal(store.list().entries[0].hearts, 0);
  assert.equal(await store.heart("old"), 1);
});

test("a log of a newer format is left alone", async () => {
  const newer = join(folder, "newer.jsonl");
  await writeFile(newer, '{"type":"format","format":99}\n');
  const log = await openLog(newer);
  await assert.rejects(createStore(log), /newer version/);
  await log.close();
});
