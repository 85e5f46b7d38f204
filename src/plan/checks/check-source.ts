import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { itemAt } from "../../domain/known.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import { scriptOf, setupInputs } from "../../domain/plan/setup-inputs.ts";

/** A command of a plan, with the words that name it. */
interface Named {
  readonly name: string;
  readonly command: string;
}

/**
 * Warns of commands that need a script which the source lacks, although they run before any task
 * can write it. Checks only a folder: the source, or the repository used in its place.
 */
export async function sourceWarnings(plan: Plan, ownRepository: string | null): Promise<string[]> {
  const { source, setup } = plan;
  if (source.kind === "git") return [];
  const folder = source.kind === "path" ? source.path : ownRepository;
  const has = (path: string): boolean => folder !== null && existsSync(join(folder, path));
  const skipped = setup === null ? [] : setupInputs(setup.run).filter(({ anyOf }) => !anyOf.some(has));
  const scripts = folder === null ? null : await npmScripts(folder);
  const unless = folder === null ? ", unless an earlier build of the project made it" : "";
  return [
    ...skipped.map(
      ({ command, anyOf }) => `setup is skipped until there is ${anyOf.join(" or ")}: ${command} needs it`,
    ),
    ...firstCommands(plan).flatMap(({ name, command }) =>
      lackOf(command, { plan, has, scripts }).map(
        (lack) => `${name} runs \`${command}\`, and the source has no ${lack}${unless}`,
      ),
    ),
  ];
}

/** Returns the commands that run before the first wave is joined. */
function firstCommands({ tasks, agents, setup }: Plan): Named[] {
  const first = tasks.filter((task) => task.dependsOn.length === 0);
  const roles = new Set(first.filter((task) => task.run === null).map((task) => task.agent));
  const isUsed = (role: string): boolean =>
    roles.has(role) || (role === "default" && [...roles].some((used) => !Object.hasOwn(agents, used)));
  return [
    ...(setup === null ? [] : linesOf("setup", setup.run)),
    ...first.flatMap(({ key, run }) => (run === null ? [] : linesOf(`task ${key}`, run))),
    ...Object.entries(agents).flatMap(([role, { runtime, command }]) =>
      runtime === "command" && command != null && isUsed(role) ? [{ name: `the role ${role}`, command }] : [],
    ),
  ];
}

/** Returns a script's only command; a longer script may create the files it needs. */
function linesOf(name: string, run: string): Named[] {
  const command = run.trim();
  return /[\n;&|<>`$(){}]/.test(command) ? [] : [{ name, command }];
}

interface Source {
  readonly plan: Plan;
  readonly has: (path: string) => boolean;
  /** The names of package.json's scripts; null without a package.json. */
  readonly scripts: ReadonlySet<string> | null;
}

function lackOf(command: string, { plan, has, scripts }: Source): string[] {
  const npm = /^npm (?:run(?:-script)? )?([\w:.-]+)/.exec(command);
  const isScript = npm !== null && (/^npm run/.test(command) || ["test", "start"].includes(itemAt(npm, 1)));
  if (isScript) {
    if (scripts === null) return ["package.json"];
    return scripts.has(itemAt(npm, 1)) ? [] : [`script ${npm[1]} in package.json`];
  }
  const file = scriptOf(command);
  if (file === null || has(file)) return [];
  // A skipped setup is reported separately.
  if (plan.setup?.run.trim() === command) return [];
  return [`file ${file}`];
}

const packageFile = z.object({ scripts: z.record(z.string(), z.string()).optional() });

async function npmScripts(folder: string): Promise<ReadonlySet<string> | null> {
  const text = await readFile(join(folder, "package.json"), "utf8").catch(() => null); // many sources have none
  if (text === null) return null;
  try {
    return new Set(Object.keys(packageFile.parse(JSON.parse(text)).scripts ?? {}));
  } catch {
    return new Set(); // npm will report what is wrong with it
  }
}
