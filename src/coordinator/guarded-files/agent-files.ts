import { posix } from "node:path";
import type { ProjectId } from "../../domain/ids.ts";
import { type AgentLink, agentFilesAmong, isAgentFile } from "../../domain/paths/agent-files.ts";
import type { SandboxEndpoint } from "../../sandbox/port.ts";
import type { AttemptInContext, AttemptRow, TaskRow } from "../../store/port.ts";
import type { ChangedFile } from "../../workspace/port.ts";
import type { Ports } from "../port.ts";
import { sharesTree } from "../wave/shared-tree.ts";
import { waveMembers } from "../wave/wave-members.ts";
import { agentFileSearch } from "./agent-file-search.ts";

// Only tasks that the plan names may change files that agents read as instructions. Otherwise one
// agent could steer the next.
//
// AF1. An attempt that changes such a file is refused unless a declared glob names the file: its
// work stays on its own branch. Fixes and generate attempts may change the files that a task of the
// wave, or the plan, declares.
// AF2. In a shared tree other agents may already have read such a file, so every attempt that ends
// while it exists is refused.

/** Returns why an attempt's changes to agent files are refused; null if all are declared. */
export async function plantedReason(
  ports: Ports,
  endpoint: SandboxEndpoint,
  loaded: AttemptInContext,
  changed: readonly ChangedFile[],
): Promise<string | null> {
  const { attempt, build } = loaded;
  const declared = await declaredIn(ports, loaded);
  const paths = changed.flatMap((file) => (file.from === null ? [file.path] : [file.from, file.path]));
  const links = paths.length === 0 ? [] : await agentLinks(ports, build.projectId, attempt.baseSha);
  const own = agentFilesAmong(paths, declared, links).filter((found) => !found.declared);
  if (own.length > 0) return reasonFor(own.map(({ file }) => file));
  const others = sharesTree(attempt) ? await plantedInShared(ports, endpoint, loaded) : [];
  return others.length === 0 ? null : `${sharedWords}${reasonFor(others)}`;
}

const sharedWords = "in the tree that its wave shares, put there by it or by another task: ";

function reasonFor(files: readonly string[]): string {
  const shown = files.slice(0, 5).join(", ");
  const more = files.length > 5 ? ` and ${files.length - 5} more` : "";
  return `${shown}${more}: agents take this as instructions or settings. A task that is to change it names it in its \`writes\` (a glob such as ** does not)`;
}

/** Returns the globs that declare agent files for this attempt. */
async function declaredIn(ports: Ports, { attempt, wave, task }: AttemptInContext): Promise<readonly string[]> {
  if (task !== null) return task.definition.writes ?? [];
  return attempt.kind === "generate" ? attempt.paths : declaredByTasks(await waveMembers(ports, wave.id));
}

export const declaredByTasks = (tasks: readonly TaskRow[]): string[] =>
  tasks.flatMap((task) => task.definition.writes ?? []);

const linkMode = "120000";
const maxLinkSteps = 20;
const maxCachedBases = 64;
const known = new Map<string, Promise<AgentLink[]>>();

/**
 * Returns the links of a commit that agents read as instructions, such as
 * `CLAUDE.md -> docs/guide.md`. Cached by commit.
 */
function agentLinks(ports: Ports, projectId: ProjectId, sha: string): Promise<AgentLink[]> {
  const found = known.get(sha) ?? findLinks(ports, projectId, sha);
  known.set(sha, found);
  found.catch(() => known.delete(sha)); // the caller gets the error
  const oldest = known.keys().next().value;
  if (known.size > maxCachedBases && oldest !== undefined) known.delete(oldest);
  return found;
}

async function findLinks({ workspace }: Ports, projectId: ProjectId, sha: string): Promise<AgentLink[]> {
  const files = await workspace.listFiles(projectId, sha);
  const links = new Set(files.filter(({ mode }) => mode === linkMode).map(({ path }) => path));
  const read = async (path: string) => (await workspace.readBlob(projectId, sha, path))?.toString("utf8") ?? "";
  const found: AgentLink[] = [];
  for (const path of [...links].filter(isAgentFile)) {
    const target = await follow(path, links, read);
    if (target !== null) found.push({ path, target });
  }
  return found;
}

/** Resolves a link within its tree, through other links; null if it leads out or in a circle. */
async function follow(
  path: string,
  links: ReadonlySet<string>,
  read: (path: string) => Promise<string>,
): Promise<string | null> {
  let place = path;
  for (let step = 0; step < maxLinkSteps; step += 1) {
    const segments = place.split("/");
    const folders = segments.map((_, index) => segments.slice(0, index + 1).join("/"));
    const link = folders.find((folder) => links.has(folder));
    if (link === undefined) return place;
    const to = await read(link);
    place = posix.normalize(posix.join(posix.dirname(link), to, place.slice(link.length)));
    if (to.startsWith("/") || place.startsWith("..") || place === ".") return null;
  }
  return null;
}

/**
 * Finds undeclared agent files in a shared tree, even ignored ones, because agents read them too.
 */
async function plantedInShared(
  ports: Ports,
  { guest }: SandboxEndpoint,
  { attempt, build, wave }: AttemptInContext,
): Promise<string[]> {
  const { treePath, baseSha } = attempt;
  const found = await guest.exec({
    argv: ["find", ".", ...agentFileSearch, "-print0"],
    cwd: treePath,
    env: { LC_ALL: "C.UTF-8" },
    writable: [],
    timeoutMs: 60_000,
    maxBytes: 1024 * 1024,
  });
  const present = found.stdout.split("\0").flatMap((path) => (path === "" ? [] : [path.replace(/^\.\//, "")]));
  const declared = declaredByTasks(await waveMembers(ports, wave.id));
  const undeclared = agentFilesAmong(present, declared).filter((one) => !one.declared);
  const planted: string[] = [];
  for (const { file } of undeclared) {
    if (await differs(ports, guest, { attempt, projectId: build.projectId, file, baseSha })) planted.push(file);
  }
  return [...planted, ...(await plantedInGit(guest, treePath))];
}

async function differs(
  { workspace }: Ports,
  guest: SandboxEndpoint["guest"],
  { attempt, projectId, file, baseSha }: { attempt: AttemptRow; projectId: ProjectId; file: string; baseSha: string },
): Promise<boolean> {
  const before = await workspace.readBlob(projectId, baseSha, file);
  const now = await guest.readFile(`${attempt.treePath}/${file}`).catch(() => null); // a link that leads out cannot be read
  return before === null || now === null || !before.equals(now);
}

/** Git settings that make `git status` or `git diff` run a program; no setup tool needs them. */
const runsPrograms =
  /^\s*(fsmonitor\s*=\s*(?!true\s*$|false\s*$)|(external|textconv|pager|sshcommand)\s*=|\[include)/im;

/** Checks the git configuration of a shared tree, because other tasks' git reads it. */
async function plantedInGit(guest: SandboxEndpoint["guest"], treePath: string): Promise<string[]> {
  const config = await guest.readFile(`${treePath}/.git/config`).catch(() => null); // missing, or too large to be ours
  return config === null || runsPrograms.test(config.toString("utf8")) ? [".git/config"] : [];
}
