// An append-only log: one JSON value per line. This is the whole database engine.
//
// L1. append() resolves only when the line is on the disk, not merely handed to the operating system.
// L2. A last line that a crash left unfinished was never acknowledged: it is cut off when the log is opened.
// L3. replaceAll() changes the file in one step (write aside, sync, rename), so a crash leaves the old log or the new.
import { mkdir, open, readFile, rename, truncate } from "node:fs/promises";
import { dirname } from "node:path";

/** Opens the log at `path`, making it and its folder if need be. `records` is what was in it. */
export async function openLog(path) {
  await mkdir(dirname(path), { recursive: true });
  const records = await recover(path);
  let file = await open(path, "a");
  let last = Promise.resolve();

  // One write at a time, in the order they were asked for. A write that failed does not hold up those after it.
  const inTurn = (work) => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };

  return {
    records,
    append: (record) =>
      inTurn(async () => {
        const { size } = await file.stat();
        try {
          await file.appendFile(`${JSON.stringify(record)}\n`);
          await file.datasync();
        } catch (error) {
          await file.truncate(size); // a disk that is full must not leave half a line for the next one to join
          throw error;
        }
      }),
    replaceAll: (everything) =>
      inTurn(async () => {
        const aside = `${path}.new`;
        await writeSynced(aside, everything.map((record) => `${JSON.stringify(record)}\n`).join(""));
        await rename(aside, path);
        await syncFolder(dirname(path));
        await file.close();
        file = await open(path, "a");
      }),
    close: () => inTurn(() => file.close()),
  };
}

async function recover(path) {
  const text = await readFile(path, "utf8").catch((error) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  if (whole.length < text.length) await truncate(path, Buffer.byteLength(whole));
  return whole
    .split("\n")
    .slice(0, -1)
    .map((line, index) => parse(line, `${path}:${index + 1}`));
}

function parse(line, place) {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw new Error(`${place} is not a record: ${line.slice(0, 60)}. Restore the file from a copy, or remove this line.`, {
      cause,
    });
  }
}

async function writeSynced(path, text) {
  const file = await open(path, "w");
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function syncFolder(path) {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
