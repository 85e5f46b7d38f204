import { resolve } from "node:path";
import { WavesmithError } from "../domain/errors.ts";
import { findDataFolder } from "./data/data-folder.ts";
import { oneLine } from "./output/format.ts";
import { createHints, type Hints } from "./output/hints.ts";
import type { Output } from "./output/output.ts";
import { type Config, configFrom, requireDriverName } from "./parts.ts";

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

/** The options, settings and output of one command. */
export interface Context {
  readonly options: GlobalOptions;
  /** The command and its arguments, without options. */
  readonly words: readonly string[];
  readonly environment: Environment;
  readonly out: Output;
  readonly hints: Hints;
  readonly json: boolean;
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
  const hints = createHints({ environment, data: options.data });
  const seldom = createSeldom();
  const warning = (message: string): string | null =>
    seldom(options.verbose === true ? message : cut(oneLine(hints.rewrite(message))));
  return {
    options,
    words,
    environment,
    out,
    hints,
    json: options.json === true,
    config: async () =>
      configFrom({
        WAVESMITH_DATA: findDataFolder(process.cwd()),
        ...environment,
        ...(options.data === undefined ? {} : { WAVESMITH_DATA: resolve(options.data) }),
        ...(options.sandbox === undefined ? {} : { WAVESMITH_SANDBOX: options.sandbox }),
        ...(options.engine === undefined ? {} : { WAVESMITH_ENGINE: options.engine }),
      }),
    warning,
    warn: (message) => {
      const text = warning(message);
      if (text !== null) out.note(out.paintError("warn", `warning: ${text}`));
    },
  };
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
  if (server !== undefined) {
    throw new WavesmithError("usage", "--server is not available yet", {
      remedy: "leave it out; commands use the data directory",
    });
  }
  if (data === "") throw new WavesmithError("usage", "--data needs a folder", { remedy: "--data .wavesmith" });
  if (sandbox !== undefined) requireDriverName(sandbox);
  if (project !== undefined) refuseProject(project);
}
