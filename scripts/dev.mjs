// `npm run dev`: an Inngest dev server and `wavesmith serve --engine inngest`, started and ended together. Further words
// go to `serve`. A dev server that runs already is used and left alone.
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const devServer = process.env.INNGEST_DEV?.startsWith("http") ? process.env.INNGEST_DEV : "http://127.0.0.1:8288";
const wavesmith = fileURLToPath(new URL("../bin/wavesmith.js", import.meta.url));
const patienceMs = 120_000;
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
  console.log("starting Inngest's dev server (the first time it is downloaded)");
  const server = start("npx", ["--yes", "inngest-cli@latest", "dev", "--no-discovery", "--host", "127.0.0.1"], {});
  let over = false;
  void server.ended.then(() => {
    over = true;
  });
  const deadline = Date.now() + patienceMs;
  while (!(await answers())) {
    if (stopping) return;
    if (over) give("npx could not get it or could not start it (what it said, if anything, is above)");
    if (Date.now() > deadline) give(`it did not answer at ${devServer} within ${patienceMs / 1000} seconds`);
    await new Promise((wake) => setTimeout(wake, 300));
  }
}

function give(reason) {
  console.error(`
wavesmith: no Inngest dev server: ${reason}
  remedy, one of:
    npm install --global inngest-cli      then again: npm run dev
    docker run --rm --network host inngest/inngest inngest dev --no-discovery
                                          and beside it: npm run dev
    INNGEST_DEV=http://HOST:8288 npm run dev   for one that runs elsewhere on this machine
    npm run wavesmith -- serve            no dev server: the embedded engine does the same, without the dashboard`);
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

/** A terminal has sent Ctrl-C to the children already; whoever asked otherwise has not. */
function stop() {
  stopping = true;
  for (const child of children) if (child.exitCode === null) child.kill("SIGTERM");
}
