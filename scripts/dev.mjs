// `npm run dev`: an Inngest dev server and `wavesmith serve --engine inngest`, started and
// stopped together. Further arguments go to `serve`. A running dev server is used and left alone.
import { spawn } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const devServer = process.env.INNGEST_DEV?.startsWith("http") ? process.env.INNGEST_DEV : "http://127.0.0.1:8288";
const wavesmith = fileURLToPath(new URL("../bin/wavesmith.js", import.meta.url));
const patienceMs = 30_000;
const children = [];
let stopping = false;

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, stop);

if (!(await answers())) await startDevServer();
if (!stopping) {
  console.log(`Inngest's dashboard: ${devServer}`);
  const words = ["serve", "--engine", "inngest", ...process.argv.slice(2)];
  const serve = start(process.execPath, [wavesmith, ...words], { INNGEST_DEV: devServer });
  process.exitCode = await serve.ended;
  stop();
}

async function startDevServer() {
  if (process.env.INNGEST_DEV?.startsWith("http")) give(`nothing answers at INNGEST_DEV, ${devServer}`);
  const program = inngestProgram();
  const { port } = new URL(devServer);
  const server = start(program, ["dev", "--no-discovery", "--host", "127.0.0.1", "--port", port], {});
  let over = false;
  void server.ended.then(() => {
    over = true;
  });
  const deadline = Date.now() + patienceMs;
  while (!(await answers())) {
    if (stopping) return;
    if (over) give(`${program} could not be started (what it printed, if anything, is above)`);
    if (Date.now() > deadline) give(`${program} did not answer at ${devServer} within ${patienceMs / 1000} seconds`);
    await delay(300);
  }
}

/** Finds INNGEST_BIN or a program on PATH; `npx` would download it, or hang offline for minutes. */
function inngestProgram() {
  const { INNGEST_BIN: named, PATH = "" } = process.env;
  if (named) return isProgram(named) ? named : give(`INNGEST_BIN is ${named}, which is not an executable file`);
  const places = PATH.split(delimiter).flatMap((folder) =>
    ["inngest", "inngest-cli"].map((name) => join(folder, name)),
  );
  return places.find(isProgram) ?? give("nothing answers there, and no `inngest` is on PATH");
}

function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false; // missing or not executable
  }
}

function give(reason) {
  console.error(`
wavesmith: no Inngest dev server at ${devServer}: ${reason}
  remedy, one of:
    npm install --global inngest-cli      then: npm run dev
    INNGEST_BIN=/path/to/inngest npm run dev
    docker run --rm --network host inngest/inngest inngest dev --no-discovery
                                          and in another terminal: npm run dev
    INNGEST_DEV=http://HOST:8288 npm run dev   for one that runs elsewhere on this machine
    npm run wavesmith -- serve            the embedded engine: the same without a dev server and its dashboard`);
  stop();
  process.exit(4);
}

async function answers() {
  try {
    return (await fetch(`${devServer}/dev`, { signal: AbortSignal.timeout(2_000) })).ok;
  } catch {
    return false; // not there yet
  }
}

function start(command, words, env) {
  const child = spawn(command, words, { stdio: "inherit", env: { ...process.env, ...env } });
  const ended = new Promise((resolve) => {
    child.on("error", (error) => {
      console.error(`${command}: ${error.message}`);
      resolve(4);
    });
    child.on("exit", (code) => resolve(code ?? 1));
  });
  children.push(child);
  return { ended };
}

/** Stops the children. A terminal's Ctrl-C has reached them already; a plain kill has not. */
function stop() {
  stopping = true;
  for (const child of children) if (child.exitCode === null) child.kill("SIGTERM");
}
