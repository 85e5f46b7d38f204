import { resolve } from "node:path";
import { WavesmithError } from "../domain/errors.ts";
import { findDataFolder } from "./data/data-folder.ts";
import { oneLine } from "./output/format.ts";
import { createHints, type Hints } from "./output/hints.ts";
import type { Output } from "./output/output.ts";
import { type Config, configFrom, keyOfOwnServer, requireDriverName } from "./parts.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Options that every command accepts. */
export interface GlobalOptions {
  readonly data?: string;
  readonly project?: string;
  readonly sandbox?: string;
  readonly engine?: string;
  readonly server?: string;
  readonly json?: boolean;
  readonly verbose?: boolean;
}

/** A server that commands work on instead of a data directory. */
export interface Server {
  /** Such as `http://127.0.0.1:4400`. */
  readonly url: string;
  /** Null if none is known. */
  readonly key: string | null;
}

/** The options, settings and output of one command. */
export interface Context {
  readonly options: GlobalOptions;
  /** The command and its arguments, without options. */
  readonly words: readonly string[];
  readonly environment: Environment;
  readonly out: Output;
  readonly hints: Hints;
  readonly json: boolean;
  /** From `--server`, or WAVESMITH_SERVER without `--data`; null for the data directory. */
  server(): Promise<Server | null>;
  /** The settings, with global options overriding the environment. */
  config(): Promise<Config>;
  /** Formats a warning; null if the same one was shown a moment ago. */
  warning(message: string): string | null;
  /** Prints a warning; the command continues. */
  warn(message: string): void;
}

interface Called {
  readonly out: Output;
  readonly words: readonly string[];
}

export function createContext(options: GlobalOptions, environment: Environment, { out, words }: Called): Context {
  refuseLater(options);
  const hints = createHints({ environment, data: options.data, server: options.server });
  const seldom = createSeldom();
  const warning = (message: string): string | null =>
    seldom(options.verbose === true ? message : cut(oneLine(hints.rewrite(message))));
  const config = () =>
    configFrom({
      WAVESMITH_DATA: findDataFolder(process.cwd()),
      ...environment,
      ...(options.data === undefined ? {} : { WAVESMITH_DATA: resolve(options.data) }),
      ...(options.sandbox === undefined ? {} : { WAVESMITH_SANDBOX: options.sandbox }),
      ...(options.engine === undefined ? {} : { WAVESMITH_ENGINE: options.engine }),
    });
  return {
    options,
    words,
    environment,
    out,
    hints,
    json: options.json === true,
    async server() {
      const set = options.data === undefined ? environment.WAVESMITH_SERVER : undefined;
      const url = options.server ?? set ?? "";
      if (url === "") return null;
      const origin = originOf(url);
      const key = environment.WAVESMITH_KEY || (await keyOfOwnServer(await config(), origin));
      return { url: origin, key };
    },
    config,
    warning,
    warn: (message) => {
      const text = warning(message);
      if (text !== null) out.note(out.paintError("warn", `warning: ${text}`));
    },
  };
}

/** Fails with `unsupported` for a command that cannot work on a server; `why` is the reason. */
export async function refuseServer(context: Context, why?: string): Promise<void> {
  const server = await context.server();
  if (server === null) return;
  const what = `this command works on a data directory, not on the server ${server.url}`;
  throw new WavesmithError("unsupported", why === undefined ? what : `${what}: ${why}`, {
    remedy: "run it on the server's machine with --data DIR, and without --server and WAVESMITH_SERVER",
  });
}

/** The same limit as for a plan's name. */
export const maxProjectLength = 80;

function refuseProject(name: string): void {
  const why =
    name.trim() === ""
      ? "is empty"
      : name.length > maxProjectLength
        ? `is longer than ${maxProjectLength} characters`
        : /\p{Cc}/u.test(name)
          ? "contains control characters"
          : null;
  if (why === null) return;
  throw new WavesmithError("usage", `the name of --project ${why}`, {
    remedy: "choose another name, or leave it out to use the plan's",
  });
}

/** Reads the address of a server. Fails with `usage`. */
function originOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url !== null && ["http:", "https:"].includes(url.protocol)) return url.origin;
  throw new WavesmithError("usage", `${text} is not the address of a server`, {
    remedy: "give --server or WAVESMITH_SERVER a URL, such as http://127.0.0.1:4400",
  });
}

const sameAgainMs = 30_000;
const maxWarningLength = 300;

const cut = (text: string): string => (text.length > maxWarningLength ? `${text.slice(0, maxWarningLength)}…` : text);

/** Limits a warning that repeats every second to two a minute. */
function createSeldom(): (text: string) => string | null {
  const shownAt = new Map<string, number>();
  return (text) => {
    const before = shownAt.get(text);
    if (before !== undefined && Date.now() - before < sameAgainMs) return null;
    shownAt.set(text, Date.now());
    return text;
  };
}

function refuseLater({ engine, server, sandbox, data, project }: GlobalOptions): void {
  if (engine !== undefined && engine !== "embedded" && engine !== "inngest") {
    throw new WavesmithError("usage", `there is no engine ${engine}`, {
      remedy: "use --engine embedded or --engine inngest, or leave it out",
    });
  }
  if (server !== undefined && data !== undefined) {
    throw new WavesmithError("usage", "--server and --data cannot be used together", { remedy: "use one of them" });
  }
  if (data === "") throw new WavesmithError("usage", "--data needs a folder", { remedy: "--data .wavesmith" });
  if (sandbox !== undefined) requireDriverName(sandbox);
  if (project !== undefined) refuseProject(project);
}
