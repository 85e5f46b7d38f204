import { resolve } from "node:path";
import { WavesmithError } from "../domain/errors.ts";
import { createHints, type Hints } from "./hints.ts";
import type { Output } from "./output.ts";
import { type Config, configFrom, refuseDriver } from "./parts.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Options that every command takes (contract 2). */
export interface GlobalOptions {
  readonly data?: string;
  readonly project?: string;
  readonly sandbox?: string;
  readonly engine?: string;
  readonly server?: string;
  readonly json?: boolean;
  readonly verbose?: boolean;
}

/** What a command works with. */
export interface Context {
  readonly options: GlobalOptions;
  readonly environment: Environment;
  readonly out: Output;
  readonly hints: Hints;
  readonly json: boolean;
  /** The settings, with those that were given as options in place of the environment's. */
  config(): Promise<Config>;
  /** Tells of something that went wrong and does not end the command. */
  warn(message: string): void;
}

export function createContext(options: GlobalOptions, environment: Environment, out: Output): Context {
  refuseLater(options);
  const hints = createHints({ environment, data: options.data });
  return {
    options,
    environment,
    out,
    hints,
    json: options.json === true,
    config: async () =>
      configFrom({
        ...environment,
        ...(options.data === undefined ? {} : { WAVESMITH_DATA: resolve(options.data) }),
        ...(options.sandbox === undefined ? {} : { WAVESMITH_SANDBOX: options.sandbox }),
      }),
    warn: (message) => out.note(out.paintError("warn", `warning: ${hints.rewrite(message)}`)),
  };
}

function refuseLater({ engine, server, sandbox, data }: GlobalOptions): void {
  if (engine !== undefined && engine !== "embedded") {
    const known = engine === "inngest" ? "comes in a later version" : "is not known";
    throw new WavesmithError("usage", `--engine ${engine} ${known}`, {
      remedy: "use --engine embedded, or leave it out",
    });
  }
  if (server !== undefined) {
    throw new WavesmithError("usage", "--server comes in a later version", {
      remedy: "leave it out: commands work on the data directory",
    });
  }
  if (data === "") throw new WavesmithError("usage", "--data needs a folder", { remedy: "--data .wavesmith" });
  if (sandbox !== undefined) refuseDriver(sandbox);
}
