import { availableParallelism } from "node:os";
import { delimiter, resolve } from "node:path";
import { z } from "zod";
import { WavesmithError } from "./domain/errors.ts";

// The only reader of the process environment. Every setting is a row of the README's table and of .env.example.

const settingsSchema = z.object({
  WAVESMITH_DATA: z.string().min(1).default(".wavesmith").describe("data directory: database, repositories, volumes"),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, "must begin with postgres:// or postgresql://")
    .optional()
    .describe("a Postgres server to use instead of the embedded one"),
  WAVESMITH_SANDBOX: z
    .enum(["local", "local-unsafe"])
    .default("local")
    .describe("`sandbox.driver`: where agents run when --sandbox says nothing"),
  WAVESMITH_SANDBOX_READ_ONLY: z
    .string()
    .default("")
    .describe("`sandbox.readOnly`: further folders that sandboxes may read, separated like PATH"),
});
export type SettingName = keyof typeof settingsSchema.shape;

export interface Config {
  readonly dataDir: string;
  readonly databaseUrl: string | null;
  readonly sandboxDriver: "local" | "local-unsafe";
  readonly sandboxReadOnly: readonly string[];
  readonly processors: number;
  /** Where the values of secrets and PATH come from. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** What the README and .env.example say of each setting. */
export const settings: readonly { name: SettingName; default: string; describes: string }[] = Object.entries(
  settingsSchema.shape,
).map(([name, schema]) => {
  const parsed = schema.safeParse(undefined);
  return {
    name: name as SettingName,
    default: parsed.success ? (parsed.data ?? "") : "",
    describes: schema.description ?? "",
  };
});

/** Reads the settings, reporting every problem together. Empty variables count as absent. */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const present = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ""));
  const parsed = settingsSchema.safeParse(present);
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
    throw new WavesmithError("usage", `settings are wrong: ${problems.join("; ")}`, {
      remedy: "mend these environment variables; the README lists every setting",
    });
  }
  const { data } = parsed;
  return {
    dataDir: resolve(data.WAVESMITH_DATA),
    databaseUrl: data.DATABASE_URL ?? null,
    sandboxDriver: data.WAVESMITH_SANDBOX,
    sandboxReadOnly: data.WAVESMITH_SANDBOX_READ_ONLY.split(delimiter).filter((path) => path !== ""),
    processors: availableParallelism(),
    environment: env,
  };
}
