// The process of one sandbox's proxy: node serve.js --state DIR --mark MARK [--uid N --gid N]
// [--first-ms N] [--lost-ms N]
//
// It outlives whoever started it. What it needs of its folder it opens first, then it becomes the
// sandbox's user.
// P1. Its sandbox is its reason to be: the guest holds a connection to `alive.sock`, on which it
// has said something, as long as it lives, wherever it runs. When there has been none for `lostMs`
// (`firstMs` before the first one), the process ends.
// P2. SIGHUP makes it read its policy again; connections that are open stay. Whoever connects to
// `alive.sock` is told in one line of JSON which policy holds.
import { chmodSync, constants, openSync, readSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { parseArgs } from "node:util";
import type { NetworkPolicy } from "../../domain/network.ts";
import { createDecisionLog } from "./decisions.ts";
import { systemLookup } from "./dial.ts";
import { createProxy } from "./proxy.ts";
import { createRules, type Rules } from "./rules.ts";
import { aliveName, decisionsName, folderName, type PolicyFile, policyName, proxyName } from "./state.ts";

const mostPolicyBytes = 1 << 20;

async function serve(): Promise<void> {
  const { values } = parseArgs({
    options: {
      state: { type: "string" },
      mark: { type: "string" },
      uid: { type: "string" },
      gid: { type: "string" },
      "first-ms": { type: "string" },
      "lost-ms": { type: "string" },
    },
  });
  if (values.state === undefined || values.mark === undefined) throw new Error("--state and --mark are needed");
  const state = stateFolder(values.state);
  const { O_RDWR, O_APPEND, O_CREAT, O_RDONLY } = constants;
  const decisions = createDecisionLog(openSync(`${state}/${decisionsName}`, O_RDWR | O_APPEND | O_CREAT, 0o600));
  const policy = holdPolicy(openSync(`${state}/${policyName}`, O_RDONLY));
  const proxy = createProxy({ rules: policy.rules, lookup: systemLookup, decisions });
  const alive = createAlive(policy.hash, {
    firstMs: Number(values["first-ms"] ?? 300_000),
    lostMs: Number(values["lost-ms"] ?? 45_000),
  });
  process.on("SIGHUP", policy.read);
  process.on("SIGTERM", () => process.exit(0));
  // The proxy first: `alive` answering means that both do.
  await listen(proxy, `${state}/${folderName}/${proxyName}`);
  await listen(alive, `${state}/${folderName}/${aliveName}`);
  // At one go, so that nobody is served while we are somebody else. A container's user is yet
  // another one; the folder above is closed to everybody else of this machine.
  for (const name of [proxyName, aliveName]) chmodSync(`${state}/${folderName}/${name}`, 0o666);
  becomeUser(values.uid, values.gid);
}

/**
 * By way of an open folder: a socket's path is limited to about 100 bytes, and later we may not
 * pass the folders above.
 */
function stateFolder(path: string): string {
  const folder = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
  return process.platform === "linux" ? `/proc/self/fd/${folder}` : path;
}

interface HeldPolicy {
  rules(): Rules;
  hash(): string;
  read(): void;
}

function holdPolicy(file: number): HeldPolicy {
  const found = readPolicy(file);
  if (found === null) throw new Error(`${policyName} does not hold a policy`);
  let { hash } = found;
  let rules = createRules(found.policy);
  const read = (): void => {
    const next = readPolicy(file);
    // Seen half written: whoever writes it signals again until we say that it holds.
    if (next === null) return;
    hash = next.hash;
    rules = createRules(next.policy);
  };
  return { rules: () => rules, hash: () => hash, read };
}

function readPolicy(file: number): { policy: NetworkPolicy; hash: string } | null {
  const text = Buffer.alloc(mostPolicyBytes);
  const length = readSync(file, text, 0, text.length, 0);
  try {
    return JSON.parse(text.toString("utf8", 0, length)) as PolicyFile;
  } catch {
    return null;
  }
}

function createAlive(hash: () => string, { firstMs, lostMs }: { firstMs: number; lostMs: number }): Server {
  let held = 0;
  let timer = setTimeout(() => process.exit(0), firstMs);
  const server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    // Who only asks which policy holds says nothing, and is no sandbox.
    socket.once("data", () => {
      held += 1;
      clearTimeout(timer);
      socket.on("close", () => {
        held -= 1;
        clearTimeout(timer);
        if (held === 0) timer = setTimeout(() => process.exit(0), lostMs);
      });
    });
    socket.resume();
    socket.write(`${JSON.stringify({ policy: hash() })}\n`);
  });
  server.maxConnections = 64;
  return server;
}

/** On a socket that is ours alone at first. */
async function listen(server: Server, path: string): Promise<void> {
  rmSync(path, { force: true });
  process.umask(0o077);
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(path, resolve));
}

function becomeUser(uid: string | undefined, gid: string | undefined): void {
  if (uid === undefined || gid === undefined) return;
  process.setgroups!([]);
  process.setgid!(Number(gid));
  process.setuid!(Number(uid));
}

serve().catch((error: unknown) => {
  process.stderr.write(`egress: ${error instanceof Error ? error.message : String(error)}\n`, () => process.exit(1));
});
