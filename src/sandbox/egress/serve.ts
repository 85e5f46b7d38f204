// The proxy process of one sandbox: node serve.js --state DIR --mark MARK [--uid N --gid N]
// [--first-ms N] [--lost-ms N]
//
// It outlives the process that started it. It opens what it needs of its folder first, then becomes
// the sandbox's user.
// ES1. It lives as long as its sandbox. A living guest holds a connection to `alive.sock` on which
// it has written something. Without one for `lostMs` (`firstMs` before the first), the process
// ends.
// ES2. On SIGHUP it reads its policy again; open connections stay. Every client of `alive.sock`
// gets one line of JSON that names the current policy.
import { chmodSync, constants, openSync, readSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { parseArgs } from "node:util";
import type { NetworkPolicy } from "../../domain/sandbox/network.ts";
import { createDecisionLog } from "./decision-log.ts";
import { systemLookup } from "./dial.ts";
import { createProxy } from "./proxy.ts";
import { createRules, type Rules } from "./rules.ts";
import { aliveName, decisionsName, folderName, type PolicyFile, policyName, proxyName } from "./state.ts";

const maxPolicyBytes = 1 << 20;

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
  // The proxy first, so that an answer on `alive` means that both listen.
  await listen(proxy, `${state}/${folderName}/${proxyName}`);
  await listen(alive, `${state}/${folderName}/${aliveName}`);
  // Synchronously, so that nobody is served under the wrong user. A container's user is yet another
  // one, and the folder above is closed to all others of this machine.
  for (const name of [proxyName, aliveName]) chmodSync(`${state}/${folderName}/${name}`, 0o666);
  becomeUser(values.uid, values.gid);
}

/**
 * Goes through an open folder, because a socket's path is limited to about 100 bytes and we may
 * lose access to the folders above.
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
    // Read half written: the writer signals again until we report the new policy.
    if (next === null) return;
    hash = next.hash;
    rules = createRules(next.policy);
  };
  return { rules: () => rules, hash: () => hash, read };
}

function readPolicy(file: number): { policy: NetworkPolicy; hash: string } | null {
  const text = Buffer.alloc(maxPolicyBytes);
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
    // A client that only asks for the policy writes nothing, and is not a sandbox.
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

/** The socket is closed to others at first. */
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
