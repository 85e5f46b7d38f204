import { createHash } from "node:crypto";

// Plans made from a seed, with an oracle: the content of the tree once a given set of their tasks
// is joined. Only what does not depend on the order of joins is exact; for files that many tasks
// write, only the set of lines is known.

/** Numbers that depend only on the seed (mulberry32). */
export interface Random {
  /** An integer from `low` to `high`, inclusive. */
  between(low: number, high: number): number;
  chance(probability: number): boolean;
  pick<T>(list: readonly T[]): T;
  /** Up to `count` different ones, in the list's order. */
  some<T>(list: readonly T[], count: number): T[];
}

export function createRandom(seed: number): Random {
  let state = (seed * 0x9e3779b9) >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (low: number, high: number): number => low + Math.floor(next() * (high - low + 1));
  return {
    between,
    chance: (probability) => next() < probability,
    pick: (list) => list[between(0, list.length - 1)]!,
    some(list, count) {
      const left = list.map((_, index) => index);
      const taken = Array.from(
        { length: Math.min(count, list.length) },
        () => left.splice(between(0, left.length - 1), 1)[0]!,
      );
      return taken.sort((one, other) => one - other).map((index) => list[index]!);
    },
  };
}

/**
 * The seeds of a run: WAVESMITH_SEEDS (`7`, `3,9` or `100-140`) if it is set, otherwise these. Use
 * it to repeat a failing seed, or to try more than a normal run has time for.
 */
export function seedsToTry(usual: readonly number[]): number[] {
  const asked = process.env.WAVESMITH_SEEDS;
  if (asked === undefined || asked === "") return [...usual];
  return asked.split(",").flatMap((part) => {
    const [first, last] = part.split("-").map(Number);
    return Array.from({ length: (last ?? first!) - first! + 1 }, (_, index) => first! + index);
  });
}

export type Fate = "succeeds" | "fails-once" | "fails";

export interface RandomTask {
  readonly key: string;
  readonly agent: string;
  readonly dependsOn: readonly string[];
  readonly fate: Fate;
  readonly effects: readonly Effect[];
  /** Declared globs, each a path or `folder/**`; null: nothing declared. */
  readonly writes: readonly string[] | null;
}

/** The effects of tasks on their tree: each has a script and a model. */
export type Effect =
  | { readonly kind: "write"; readonly path: string; readonly text: string }
  | { readonly kind: "append" | "prepend"; readonly path: string; readonly line: string }
  | { readonly kind: "digest"; readonly path: string; readonly of: readonly string[] }
  | { readonly kind: "remove"; readonly path: string }
  | { readonly kind: "move"; readonly path: string; readonly to: string }
  | { readonly kind: "generate" };

export interface ExpectedTree {
  /** Files whose text is known. */
  readonly files: ReadonlyMap<string, string>;
  /** Files that several tasks write to: their lines, sorted. */
  readonly lines: ReadonlyMap<string, readonly string[]>;
}

export interface RandomPlan {
  /** The plan as a person writes it. */
  readonly plan: Record<string, unknown>;
  readonly tasks: readonly RandomTask[];
  readonly onTaskFailure: "stop" | "continue";
  readonly tasksPerAgentPerWave: number;
  readonly maxParallelTasks: number;
  /** The tree once these tasks are joined; the set includes the dependencies of all its members. */
  treeOf(completed: ReadonlySet<string>): ExpectedTree;
}

export interface RandomPlanOptions {
  readonly tasks?: readonly [least: number, most: number];
  /** Whether tasks may fail for good. Default true. */
  readonly failures?: boolean;
  /** Shell text that every task begins with. */
  readonly before?: string;
}

export const generatedPath = "gen/all.txt";
const generateCommand = `mkdir -p gen && cat own/*.txt | LC_ALL=C sort > ${generatedPath}`;
const roles = ["backend", "frontend", "database", "default", "docs-writer"] as const;

/** The plan of a seed: the same seed gives the same plan. */
export function randomPlan(seed: number, options: RandomPlanOptions = {}): RandomPlan {
  const random = createRandom(seed);
  const [least, most] = options.tasks ?? [5, 25];
  const size = random.between(least, most);
  const withGenerated = random.chance(0.4);
  const failing = options.failures !== false && random.chance(0.35);
  const tasks: RandomTask[] = [];
  const unclaimed: { path: string; maker: string }[] = [];
  for (let index = 0; index < size; index += 1) {
    tasks.push(randomTask(random, { index, tasks, unclaimed, withGenerated, failing }));
  }
  if (withGenerated) tasks.push(lastTask(tasks));
  const limits = { tasksPerAgentPerWave: random.between(1, 4), maxParallelTasks: random.between(1, 4) };
  const onTaskFailure = random.chance(0.6) ? "continue" : "stop";
  return {
    plan: {
      limits,
      onTaskFailure,
      agents: { "docs-writer": { runtime: "command", command: "false" } },
      ...(withGenerated ? { generated: [{ path: generatedPath, by: generateCommand }] } : {}),
      gates: randomGates(random),
      tasks: tasks.map((task) => planTask(task, options.before)),
    },
    tasks,
    onTaskFailure,
    ...limits,
    treeOf: (completed) => treeOf(tasks, completed),
  };
}

function randomGates(random: Random): Record<string, unknown> {
  const off = { testing: false, critic: false, integration: false };
  if (random.chance(0.6)) return off;
  const testing = { command: "test ! -e junk; echo 1..1; echo ok 1 - no junk" };
  return random.chance(0.5) ? { ...off, testing } : { testing, integration: { command: "test ! -e junk" } };
}

interface Making {
  readonly index: number;
  readonly tasks: readonly RandomTask[];
  /** Files that one later task may remove or move. */
  readonly unclaimed: { path: string; maker: string }[];
  readonly withGenerated: boolean;
  readonly failing: boolean;
}

function randomTask(random: Random, making: Making): RandomTask {
  const { index, tasks } = making;
  const key = `t${String(index).padStart(2, "0")}`;
  const needed = random.chance(0.3) ? [] : random.some(tasks, random.between(1, 3));
  const idle = random.chance(0.08);
  const effects = idle ? [] : randomEffects(random, making, { key, needed });
  const fate = making.failing && random.chance(0.12) ? "fails" : random.chance(0.15) ? "fails-once" : "succeeds";
  return {
    key,
    agent: random.pick(roles),
    dependsOn: needed.map((task) => task.key),
    fate,
    effects,
    writes: random.chance(0.45) ? effects.flatMap((effect) => declared(random, effect)) : null,
  };
}

const output = (task: RandomTask): string[] =>
  task.effects.flatMap((effect) => (effect.kind === "write" || effect.kind === "digest" ? [effect.path] : []));

function randomEffects(random: Random, making: Making, of: { key: string; needed: readonly RandomTask[] }): Effect[] {
  const { key, needed } = of;
  const text = Array.from(
    { length: random.between(1, 6) },
    (_, line) => `${key} line ${line} ${random.between(0, 1e6)}\n`,
  );
  const effects: Effect[] = [{ kind: "write", path: `own/${key}.txt`, text: text.join("") }];
  // Files that a dependency made to be removed are nobody's input, because they may be gone.
  const inputs = needed.flatMap(output).filter((path) => !path.startsWith("temp/"));
  if (inputs.length > 0 && random.chance(0.8)) effects.push({ kind: "digest", path: `derived/${key}.txt`, of: inputs });
  if (random.chance(0.35)) {
    const kind = random.chance(0.75) ? "append" : "prepend";
    effects.push({ kind, path: `shared/${random.pick(["log", "list", "deep/notes"])}.txt`, line: `${key} was here` });
  }
  if (random.chance(0.25)) {
    const path = `temp/${key}.txt`;
    effects.push({ kind: "write", path, text: text.map((line) => `temporary ${line}`).join("") });
    making.unclaimed.push({ path, maker: key });
  }
  const claim = making.unclaimed.findIndex(({ maker }) => needed.some((task) => task.key === maker));
  if (claim >= 0 && random.chance(0.7)) {
    const { path } = making.unclaimed.splice(claim, 1)[0]!;
    effects.push(random.chance(0.5) ? { kind: "remove", path } : { kind: "move", path, to: `moved/${key}.txt` });
  }
  if (making.withGenerated && random.chance(0.5)) effects.push({ kind: "generate" });
  return effects;
}

/** Depends on every task, so that the generated file's final text is known. */
function lastTask(tasks: readonly RandomTask[]): RandomTask {
  const dependsOn = tasks.map((task) => task.key);
  return { key: "last", agent: "default", dependsOn, fate: "succeeds", effects: [{ kind: "generate" }], writes: null };
}

/** The paths that an effect writes. */
export function pathsOf(effect: Effect): string[] {
  if (effect.kind === "generate") return [generatedPath];
  return effect.kind === "move" ? [effect.path, effect.to] : [effect.path];
}

function declared(random: Random, effect: Effect): string[] {
  return pathsOf(effect).map((path) => (random.chance(0.2) ? `${path.split("/")[0]}/**` : path));
}

function planTask(task: RandomTask, before = "true"): Record<string, unknown> {
  return {
    id: task.key,
    title: `Task ${task.key}`,
    agent: task.agent,
    dependsOn: task.dependsOn,
    ...(task.writes === null ? {} : { writes: task.writes }),
    retries: task.fate === "fails" ? 0 : 1,
    run: [before, ...fateScript(task), ...task.effects.map(scriptOf), "true"].join("\n"),
  };
}

function fateScript({ fate, key }: RandomTask): string[] {
  const fail = `mkdir -p junk; echo junk > junk/${key}.txt; echo "${key} went wrong"; exit 3`;
  if (fate === "fails") return [fail];
  return fate === "fails-once" ? [`if grep -q '"attempt": 1,' "$WAVESMITH_TASK_FILE"; then ${fail}; fi`] : [];
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
const folderOf = (path: string): string => `mkdir -p ${path.slice(0, path.lastIndexOf("/"))}`;

function scriptOf(effect: Effect): string {
  switch (effect.kind) {
    case "write":
      return `${folderOf(effect.path)}; printf %s ${quoted(effect.text)} > ${effect.path}`;
    case "append":
      return `${folderOf(effect.path)}; echo ${quoted(effect.line)} >> ${effect.path}`;
    case "prepend":
      return `${folderOf(effect.path)}; touch ${effect.path}; old=$(cat ${effect.path}; echo .)
printf '%s\\n%s' ${quoted(effect.line)} "\${old%.}" > ${effect.path}`;
    case "digest":
      // The first `cat` fails when one is missing; in a pipe nobody would notice.
      return `${folderOf(effect.path)}; cat ${effect.of.join(" ")} > /dev/null
cat ${effect.of.join(" ")} | sha256sum | cut -c1-64 > ${effect.path}`;
    case "remove":
      return `rm ${effect.path}`;
    case "move":
      return `${folderOf(effect.to)}; mv ${effect.path} ${effect.to}`;
    case "generate":
      return generateCommand;
  }
}

function treeOf(tasks: readonly RandomTask[], completed: ReadonlySet<string>): ExpectedTree {
  const files = new Map<string, string>();
  const lines = new Map<string, string[]>();
  // Plan order is an order of dependencies: a task only names earlier ones.
  for (const task of tasks) {
    if (completed.has(task.key)) for (const effect of task.effects) applyEffect(effect, files, lines);
  }
  for (const list of lines.values()) list.sort();
  // Without the last task it is as fresh as the last one that made it.
  if (!completed.has("last")) files.delete(generatedPath);
  return { files, lines };
}

function applyEffect(effect: Effect, files: Map<string, string>, lines: Map<string, string[]>): void {
  switch (effect.kind) {
    case "write":
      files.set(effect.path, effect.text);
      return;
    case "append":
    case "prepend":
      lines.set(effect.path, [...(lines.get(effect.path) ?? []), effect.line]);
      return;
    case "digest":
      files.set(effect.path, `${sha256(effect.of.map((path) => files.get(path)!).join(""))}\n`);
      return;
    case "remove":
      files.delete(effect.path);
      return;
    case "move":
      files.set(effect.to, files.get(effect.path)!);
      files.delete(effect.path);
      return;
    case "generate":
      files.set(generatedPath, generatedText(files));
  }
}

/** The content of the generated file for a tree of these files. */
export function generatedText(files: ReadonlyMap<string, string>): string {
  const own = [...files].filter(([path]) => path.startsWith("own/")).map(([, text]) => text);
  const sorted = own
    .join("")
    .split("\n")
    .filter((line) => line !== "")
    .sort();
  return sorted.map((line) => `${line}\n`).join("");
}

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");
