// Uses the real program as a visitor would, and pulls its plug once: what was signed has to be there afterwards.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const folder = await mkdtemp(join(tmpdir(), "guestbook-smoke-"));
const env = { ...process.env, HOST: "127.0.0.1", PORT: "0", GUESTBOOK_DATA: join(folder, "book.jsonl") };
const running = new Set();

async function start() {
  const program = spawn(process.execPath, ["src/server.js"], { env, stdio: ["ignore", "pipe", "inherit"] });
  running.add(program);
  for await (const line of createInterface({ input: program.stdout })) {
    const url = /http:\S+/.exec(line)?.[0];
    if (url) return { program, url };
  }
  throw new Error("The program ended before it was ready.");
}

async function stop(program, signal) {
  const ended = once(program, "exit");
  program.kill(signal);
  const [code] = await ended;
  running.delete(program);
  return code;
}

function must(what, holds) {
  if (!holds) throw new Error(`It does not hold: ${what}`);
  console.log(`ok: ${what}`);
}

try {
  const first = await start();
  must("the page answers", (await fetch(first.url)).ok);
  const signed = await fetch(first.url, {
    method: "POST",
    redirect: "manual",
    body: new URLSearchParams({ author: "Smoke test", message: "I was here <b>boldly</b>" }),
  });
  must("signing leads back to the page", signed.status === 303);
  await stop(first.program, "SIGKILL");

  const second = await start();
  const page = await (await fetch(second.url)).text();
  must("the entry survived a SIGKILL", page.includes("Smoke test"));
  must("its markup is shown as text", page.includes("&lt;b&gt;boldly"));
  for (const name of ["style.css", "app.js", "icon.svg"]) must(`${name} is served`, (await fetch(`${second.url}/${name}`)).ok);
  must("SIGTERM ends it cleanly", (await stop(second.program, "SIGTERM")) === 0);
} finally {
  for (const program of running) program.kill("SIGKILL");
  await rm(folder, { recursive: true, force: true });
}
