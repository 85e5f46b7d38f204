import { itemAt } from "../../domain/known.ts";

// Finds what gates' commands use: scripts of a package.json, targets of make, files run by a shell
// or an interpreter.

/** Splits a shell line into words without quotes; separators and redirections end a word. */
function wordsOf(command: string): string[] {
  return command.split(/[\s'"`;&|()<>{}$=,]+/).filter((word) => word !== "");
}

const packagePrograms = /(?:^|[\s;&|(/"'])(?:npm|pnpm|yarn|bun|run-s|run-p|npm-run-all|concurrently|wireit|turbo|nx)\b/;
const nodeRun = /\bnode\s+--run\b/;
const installs = /\b(?:npm|pnpm|yarn|bun)\b(?:\s+(?:ci|i|install|clean-install|add)\b|\s*$)/m;
/** npm runs these scripts when it installs. */
const installScripts = ["preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare"];

/**
 * Returns the scripts of one package.json that the commands run, directly or through each other,
 * with their pre and post scripts.
 */
export function usedScripts(commands: readonly string[], scripts: Readonly<Record<string, string>>): string[] {
  const used = new Set<string>();
  const queue = [...commands];
  for (let command = queue.pop(); command !== undefined; command = queue.pop()) {
    if (!packagePrograms.test(command) && !nodeRun.test(command)) continue;
    const words = wordsOf(command).flatMap((word) => (word === "t" || word === "tst" ? ["test"] : [word]));
    const namedScripts = Object.keys(scripts).filter((name) => words.some((word) => namesScript(word, name)));
    const run = [
      ...namedScripts,
      ...words.filter((word) => word === "test"),
      ...(installs.test(command) ? installScripts : []),
    ];
    for (const name of run.flatMap((script) => [script, `pre${script}`, `post${script}`])) {
      if (used.has(name)) continue;
      used.add(name);
      if (Object.hasOwn(scripts, name)) queue.push(scripts[name] ?? "");
    }
  }
  return [...used].sort();
}

/** Whether a word names a script; `run-s test:*` names every script with this prefix. */
const namesScript = (word: string, name: string): boolean =>
  word === name || (word.includes("*") && name.startsWith(word.slice(0, word.indexOf("*"))));

/** Adds the scripts of the root's package.json and the make recipes that the commands run. */
export function expandCommands(
  commands: readonly string[],
  files: { readonly scripts: Readonly<Record<string, string>>; readonly makefile: string | null },
): string[] {
  const known = new Set(commands);
  for (let before = -1; before < known.size; ) {
    before = known.size;
    for (const name of usedScripts([...known], files.scripts)) {
      if (Object.hasOwn(files.scripts, name)) known.add(files.scripts[name] ?? "");
    }
    if (files.makefile !== null) for (const line of usedRules(files.makefile, [...known])) known.add(line.trim());
  }
  return [...known];
}

/** Finds words of the commands that may be shell scripts of the tree. */
export function shellScripts(commands: readonly string[]): string[] {
  const words = commands.flatMap((command) => wordsOf(command)).map((word) => word.replace(/^(?:\.\/)+/, ""));
  return [...new Set(words)].filter((word) =>
    /^[^/-].*\.(?:sh|bash)$|^(?:bin|scripts?|tools?|ci)\/[\w./-]+$/.test(word),
  );
}

/** Returns the targets that commands pass to make; `null` stands for the file's first target. */
function usedTargets(commands: readonly string[]): (string | null)[] {
  return commands.flatMap((command) =>
    [...command.matchAll(/(?:^|[\s;&|(@+-])g?make\b([^;&|\n]*)/g)].flatMap((match) => {
      const targets = wordsOf(itemAt(match, 1)).filter((word) => /^[\w./-]+$/.test(word) && !word.startsWith("-"));
      return targets.length === 0 ? [null] : targets;
    }),
  );
}

interface Rule {
  readonly targets: readonly string[];
  readonly needs: readonly string[];
  readonly lines: readonly string[];
}

const ruleStart = /^([^\s#:=][^#:=]*):(?![=:]*=)(.*)$/;

function rulesOf(makefile: string): { rules: Rule[]; others: string[] } {
  const rules: { targets: string[]; needs: string[]; lines: string[] }[] = [];
  const others: string[] = [];
  for (const line of makefile.replace(/\\\r?\n/g, " ").split(/\r?\n/)) {
    const start = ruleStart.exec(line.slice(0, 4_000));
    if (line.startsWith("\t") && rules.length > 0) itemAt(rules, -1).lines.push(line);
    else if (start !== null)
      rules.push({
        targets: wordsOf(itemAt(start, 1)),
        needs: wordsOf(itemAt(start, 2).replace(/[:|]/g, " ")),
        lines: [line],
      });
    else if (!/^\s*(?:#|$)/.test(line)) others.push(line);
  }
  return { rules, others };
}

/**
 * Returns the lines of a makefile that affect the targets the commands use; none if they do not run
 * make.
 */
export function usedRules(makefile: string, commands: readonly string[]): string[] {
  const requestedTargets = usedTargets(commands);
  if (requestedTargets.length === 0) return [];
  const { rules, others } = rulesOf(makefile);
  const first = rules.find(({ targets }) => !targets[0]?.startsWith("."))?.targets ?? [];
  const queue = requestedTargets.flatMap((target) => (target === null ? first : [target]));
  const used = new Set<string>();
  for (let target = queue.pop(); target !== undefined; target = queue.pop()) {
    if (used.has(target)) continue;
    used.add(target);
    for (const rule of rules) if (rule.targets.includes(target)) queue.push(...rule.needs);
  }
  // A pattern or a special target, such as .DEFAULT or .ONESHELL, affects every rule.
  const usedRuleList = rules.filter(({ targets }) => targets.some((name) => used.has(name) || /%|^\./.test(name)));
  const text = usedRuleList.flatMap(({ lines }) => lines);
  return [...text, ...others.filter((line) => decides(line, text))];
}

/** Whether a line outside all rules can change these recipes. */
function decides(line: string, recipes: readonly string[]): boolean {
  const name = /^\s*(?:override\s+|export\s+)*([\w.-]+)\s*(?:[:?+!]{0,3}=)/.exec(line.slice(0, 4_000))?.[1];
  if (name === undefined || /^\s*export\b/.test(line)) return !/^\s*\.PHONY/.test(line);
  if (/^(?:SHELL|\.SHELLFLAGS|MAKEFLAGS|MAKE|PATH|BASH_ENV|ENV)$/.test(name)) return true;
  return recipes.some((recipe) => recipe.includes(`$(${name})`) || recipe.includes(`\${${name}}`));
}

const interpreters = /^(?:node|deno|bun|tsx|ts-node|python3?|ruby|perl|php|Rscript|lua)$/;
const shells = /^(?:sh|bash|dash|zsh|ksh|source|\.)$/;
const runnerName = /(?:^|[/._-])(?:tests?|checks?|verify|lint|ci|gate|specs?|smoke|e2e|all|suite)(?:[._-]|$)/i;

/**
 * Whether the commands run this file: through a shell, by its path, or as a script named like a
 * runner.
 */
export function runsFile(commands: readonly string[], path: string): boolean {
  const isScript = /\.(?:sh|bash|zsh|ksh|mk)$/.test(path);
  return commands.some((command) =>
    command.split(/[;&|()\n]+/).some((simple) => {
      const words = wordsOf(simple);
      const at = words.findIndex((word) => samePath(word, path));
      if (at < 0) return false;
      const before = words.slice(0, at).filter((word) => !word.startsWith("-"));
      if (isScript || before.length === 0 || before.some((word) => shells.test(word))) return true;
      return before.some((word) => interpreters.test(word.replace(/^.*\//, ""))) && runnerName.test(path);
    }),
  );
}

/** Whether a word names this path, from the root or from the folder of a package. */
function samePath(word: string, path: string): boolean {
  const name = word.replace(/^(?:\.\/)+/, "");
  return name === path || (name.includes("/") && path.endsWith(`/${name}`));
}
