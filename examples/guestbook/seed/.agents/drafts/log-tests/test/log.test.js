import assert from "node:assert/strict";
import { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { openLog } from "../src/db/log.js";

let folder;
let path;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "guestbook-log-"));
  path = join(folder, "deep", "book.jsonl");
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function recordsOf(log) {
  await log.close();
  const again = await openLog(path);
  await again.close();
  return again.records;
}

test("what was appended is there again, in order", async () => {
  const log = await openLog(path);
  for (const text of ["one", "two\nlines", "drei ✓"]) await log.append({ text });
  assert.deepEqual(await recordsOf(log), [{ text: "one" }, { text: "two\nlines" }, { text: "drei ✓" }]);
});

test("appends at the same time do not mix", async () => {
  const log = await openLog(path);
  const numbers = Array.from({ length: 50 }, (_, n) => n);
  await Promise.all(numbers.map((n) => log.append({ n, padding: "x".repeat(n * 50) })));
  assert.deepEqual((await recordsOf(log)).map((record) => record.n), numbers);
});

test("an unfinished last line is dropped, and the next append is whole", async () => {
  const log = await openLog(path);
  await log.append({ n: 1 });
  await log.close();
  await appendFile(path, '{"n":2,"text":"the power went o');
  const after = await openLog(path);
  assert.deepEqual(after.records, [{ n: 1 }]);
  await after.append({ n: 3 });
  assert.deepEqual(await recordsOf(after), [{ n: 1 }, { n: 3 }]);
});

test("a broken line in the middle is named, and nothing is thrown away", async () => {
  const log = await openLog(path);
  await log.close();
  const text = '{"n":1}\nnot a record\n{"n":3}\n';
  await writeFile(path, text);
  await assert.rejects(openLog(path), /book\.jsonl:2 is not a record/);
  assert.equal(await readFile(path, "utf8"), text);
});

test("replacing everything keeps what is appended afterwards", async () => {
  const log = await openLog(path);
  await log.append({ n: 1 });
  await log.replaceAll([{ n: 10 }]);
  await log.append({ n: 11 });
  assert.deepEqual(await recordsOf(log), [{ n: 10 }, { n: 11 }]);
});
