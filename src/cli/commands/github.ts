import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { text as textOf } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { WavesmithError } from "../../domain/errors.ts";
import { type Context, refuseServer } from "../context.ts";
import { showInBrowser } from "../data/sign-in-link.ts";
import { watchInterrupts } from "../interrupts.ts";
import { exit } from "../output/exit-codes.ts";
import { type ForgeIdentity, type GitHubConnection, openConnectServer, openSignIn } from "../parts/forges.ts";

export interface GitHubSetupOptions {
  /** Signs in as an App; needs its key's file. */
  readonly appId?: string | undefined;
  readonly keyFile?: string | undefined;
}

const secretIsKept = "it keeps a secret on the machine that delivers";

/** `github setup`: signs in to GitHub with a token from the terminal or stdin, or as an App. */
export async function githubSetup(context: Context, { appId, keyFile }: GitHubSetupOptions): Promise<number> {
  await refuseServer(context, secretIsKept);
  const connection = openSignIn(await context.config());
  if ((appId === undefined) !== (keyFile === undefined)) {
    throw new WavesmithError("usage", "a GitHub App needs both --app ID and --key FILE");
  }
  const credential =
    appId !== undefined && keyFile !== undefined
      ? ({ kind: "app", appId, privateKey: await readFile(keyFile, "utf8") } as const)
      : ({ kind: "token", token: await readToken(context, connection.webUrl) } as const);
  const { identity, path } = await connection.store(credential);
  reportSignIn(context, identity, { file: path });
  if (!context.json)
    context.out.line(`stored in ${path}, which only you can read; a running \`serve\` uses it at once`);
  return exit.ok;
}

/** `github connect`: makes a GitHub App in the browser and signs in as it. */
export async function githubConnect(context: Context, { organization = null }: GitHubConnectOptions): Promise<number> {
  await refuseServer(context, secretIsKept);
  const { out, json } = context;
  const connection = openSignIn(await context.config());
  let finish: () => void = () => undefined;
  const made = new Promise<"made">((resolve) => {
    finish = () => resolve("made");
  });
  const server = await openConnectServer(connection, () => finish());
  const interrupts = watchInterrupts(process);
  try {
    const { state, expiresAt } = await connection.beginApp({ origin: server.origin, organization });
    const url = `${server.origin}/connect/github?state=${state}`;
    if (json) out.json({ type: "github.connecting", url, expiresAt: expiresAt.toISOString() });
    else out.line(`open this page in a browser on this machine: ${url}`);
    out.note("it works once, for ten minutes; Ctrl-C stops waiting for it");
    if (out.live && !json) showInBrowser(url);
    const end = await Promise.race([made, interrupts.next().then(() => "stopped" as const), until(expiresAt)]);
    if (end === "stopped") return exit.cancelled;
    if (end === "late") throw await tooLate(connection);
  } finally {
    interrupts.dispose();
    await server.stop();
  }
  const { identity, problem } = await connection.read();
  if (identity === null) throw new WavesmithError("environment", problem?.message ?? "GitHub does not know the App");
  reportSignIn(context, identity);
  return exit.ok;
}

export interface GitHubConnectOptions {
  /** The organisation that owns the App; default: the person's account. */
  readonly organization?: string | null;
}

async function until(time: Date): Promise<"late"> {
  await pause(time.getTime() - Date.now(), undefined, { ref: false });
  return "late";
}

async function tooLate(connection: GitHubConnection): Promise<WavesmithError> {
  const { unfinished } = await connection.read();
  return new WavesmithError("environment", "no App was connected within ten minutes", {
    remedy: unfinished?.remedy ?? "run it again: wavesmith github connect",
  });
}

/** Says whose credential it is, what it may do, and where an App still has to be installed. */
function reportSignIn({ out, json }: Context, identity: ForgeIdentity, more: { readonly file?: string } = {}): void {
  const { kind, login, rights, installed } = identity;
  if (json) {
    out.json({ type: "github.signed-in", kind, login, rights, installed, ...more });
    return;
  }
  out.line(`signed in to GitHub as ${login} (${kind})`);
  if (rights.length > 0) out.line(`it may: ${rights.join(", ")}`);
  if (installed === null) return;
  if (installed.accounts.length === 0) out.line(`install it for its repositories: ${installed.url}`);
  else out.line(`installed for ${installed.accounts.join(", ")}; for others: ${installed.url}`);
}

/** Reads a token without showing it: typed at a terminal, or the first line of stdin. */
async function readToken({ out }: Context, webUrl: string): Promise<string> {
  if (process.stdin.isTTY !== true) return checked((await textOf(process.stdin)).split("\n")[0] ?? "");
  out.note(`create a token at ${webUrl}/settings/personal-access-tokens/new`);
  out.note("it needs, for its repositories: Contents, Pull requests and Commit statuses, read and write");
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const reader = createInterface({ input: process.stdin, output: silent, terminal: true });
  out.note("paste the token, then Enter (it is not shown):");
  try {
    return checked(await reader.question(""));
  } finally {
    reader.close();
  }
}

function checked(typed: string): string {
  const token = typed.trim();
  if (/^[\w-]{20,}$/.test(token)) return token;
  throw new WavesmithError("usage", "that is not a GitHub token", {
    remedy: "paste all of it, or: wavesmith github setup < FILE",
  });
}
