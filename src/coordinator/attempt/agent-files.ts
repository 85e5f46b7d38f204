import { posix } from "node:path";
import { type AgentLink, agentFilesAmong, isAgentFile } from "../../domain/agent-files.ts";
import type { ProjectId } from "../../domain/ids.ts";
import type { SandboxEndpoint } from "../../sandbox/port.ts";
import type { AttemptInContext, AttemptRow, TaskRow } from "../../store/port.ts";
import type { ChangedFile } from "../../workspace/port.ts";
import type { Ports } from "../port.ts";
import { sharesTree } from "../wave/shared-tree.ts";
import { waveMembers } from "../wave/wave-members.ts";
import { agentFileSearch } from "./agent-file-search.ts";

// What agents read as instructions is changed by whom the plan lets, and by nobody else: else one
// agent steers the next.
//
// A1. An attempt that changes such a file without a declared glob that names it is refused: its
// work stays on its own branch and joins nothing. A fix and generated files may change what a task
// of the wave, or the plan, declares.
// A2. In a tree that several share others may have read it already: whoever ends while it is there
// is refused.

/**
 * Why an attempt's change of agents' files is not let through; null when there is none, or all are
 * declared.
 */
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

/** Globs that may name agents' files for this attempt. */
async function declaredIn(ports: Ports, { attempt, wave, task }: AttemptInContext): Promise<readonly string[]> {
  if (task !== null) return task.definition.writes ?? [];
  return attempt.kind === "generate" ? attempt.paths : declaredByTasks(await waveMembers(ports, wave.id));
}

export const declaredByTasks = (tasks: readonly TaskRow[]): string[] =>
  tasks.flatMap((task) => task.definition.writes ?? []);

const linkMode = "120000";
const mostLinkSteps = 20;
const mostBases = 64;
const known = new Map<string, Promise<AgentLink[]>>();

/**
 * The links of a commit that agents read as instructions, such as `CLAUDE.md -> docs/guide.md`.
 * Asked of git once a commit.
 */
function agentLinks(ports: Ports, projectId: ProjectId, sha: string): Promise<AgentLink[]> {
  const found = known.get(sha) ?? findLinks(ports, projectId, sha);
  known.set(sha, found);
  found.catch(() => known.delete(sha)); // It is told where it is awaited.
  const oldest = known.keys().next().value;
  if (known.size > mostBases && oldest !== undefined) known.delete(oldest);
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

/**
 * Where a link leads in its tree, links on the way followed; null when it leads out of it or in a
 * circle.
 */
async function follow(
  path: string,
  links: ReadonlySet<string>,
  read: (path: string) => Promise<string>,
): Promise<string | null> {
  let place = path;
  for (let step = 0; step < mostLinkSteps; step += 1) {
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
 * Undeclared ones among the files of a shared tree, also those that git ignores: an agent reads
 * them all the same.
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
  const now = await guest.readFile(`${attempt.treePath}/${file}`).catch(() => null); // A link that leads out cannot be read.
  return before === null || now === null || !before.equals(now);
}

/**
 * Settings by which a mere `git status` or `git diff` runs a program; tools that set up a
 * repository set none of these.
 */
const runsPrograms =
  /^\s*(fsmonitor\s*=\s*(?!true\s*$|false\s*$)|(external|textconv|pager|sshcommand)\s*=|\[include)/im;

/** Another task's git reads the configuration of the tree that they share. */
async function plantedInGit(guest: SandboxEndpoint["guest"], treePath: string): Promise<string[]> {
  const config = await guest.readFile(`${treePath}/.git/config`).catch(() => null); // Too large to be one of ours, or none.
  return config === null || runsPrograms.test(config.toString("utf8")) ? [".git/config"] : [];
}
