import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { text as textOf } from "node:stream/consumers";
import { WavesmithError } from "../../domain/errors.ts";
import { type Context, refuseServer } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { storeCredential } from "../parts/forges.ts";

export interface GitHubSetupOptions {
  /** Signs in as an App; needs its key's file. */
  readonly appId?: string | undefined;
  readonly keyFile?: string | undefined;
}

/** `github setup`: signs in to GitHub with a token from the terminal or stdin, or as an App. */
export async function githubSetup(context: Context, { appId, keyFile }: GitHubSetupOptions): Promise<number> {
  await refuseServer(context);
  const config = await context.config();
  if ((appId === undefined) !== (keyFile === undefined)) {
    throw new WavesmithError("usage", "a GitHub App needs both --app ID and --key FILE");
  }
  const credential =
    appId !== undefined && keyFile !== undefined
      ? ({ kind: "app", appId, privateKey: await readFile(keyFile, "utf8") } as const)
      : ({ kind: "token", token: await readToken(context, config.github.webUrl) } as const);
  const { identity, path } = await storeCredential(config, credential);
  const { kind, login, rights } = identity;
  if (context.json) context.out.json({ type: "github.signed-in", kind, login, rights, file: path });
  else {
    context.out.line(`signed in to GitHub as ${login} (${kind})`);
    if (rights.length > 0) context.out.line(`it may: ${rights.join(", ")}`);
    context.out.line(`stored in ${path}, which only you can read; a running \`serve\` uses it after a restart`);
  }
  return exit.ok;
}

/** Reads a token without showing it: typed at a terminal, or the first line of stdin. */
async function readToken({ out }: Context, webUrl: string): Promise<string> {
  if (process.stdin.isTTY !== true) return checked((await textOf(process.stdin)).split("\n")[0] ?? "");
  out.note(`make a token at ${webUrl}/settings/personal-access-tokens/new`);
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
  throw new WavesmithError("usage", "that is no token of GitHub", {
    remedy: "paste it whole, or: wavesmith github setup < FILE",
  });
}
