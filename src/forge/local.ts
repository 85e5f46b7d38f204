import { randomUUID } from "node:crypto";
import { link, mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { ForgeCheck } from "../domain/forge.ts";
import { pushWithLease, runGit } from "./git.ts";
import {
  type CheckReport,
  type Forge,
  ForgeError,
  type ForgePlace,
  type ForgeRepository,
  type RequestState,
  tooLarge,
} from "./port.ts";

// LO1. `<folder>/<owner>/<name>.git` is a bare repository. Its requests, comments and checks are
// JSON files in its folder `wavesmith`. Creating a request's file reserves its number.

type Environment = Readonly<Record<string, string | undefined>>;

interface StoredRequest {
  readonly number: number;
  readonly key: string;
  readonly branch: string;
  readonly base: string;
  readonly title: string;
  readonly body: string;
  readonly state: "open" | "merged" | "closed";
  readonly mergeSha: string | null;
  readonly comments: Readonly<Record<string, string>>;
}

/** A forge of bare repositories on this machine, without people, reviews or rules. */
export function createLocalForge(folder: string, environment: Environment): Forge {
  const { pathOf, git, find, ensure, branchSha, fastForward } = repositoriesIn(folder, environment);
  const requests = requestFiles(({ name }) => join(pathOf(name), "wavesmith", "requests"));
  const checks = checkFiles(({ name }) => join(pathOf(name), "wavesmith", "checks"));
  return {
    name: "local",
    identify: async () => ({ kind: "none", login: "this machine", rights: [], rate: null, installed: null }),
    findRepository: ({ name, id }) => find(id ?? name),
    locateRepository: ({ id }) => ({ id, name: id, gitUrl: pathToFileURL(pathOf(id)).href }),
    ensureRepository: ({ name }) => ensure(name),
    gitEnvironment: async () => ({}),
    async readBranch(repository, branch) {
      const sha = await branchSha(repository, branch);
      if (sha === null) return null;
      return { sha, isProtected: false, requiredChecks: [], requiredApprovals: 0, hasMergeQueue: false };
    },
    pushBranch: (request) => pushWithLease(request, { url: request.repository.gitUrl, env: {}, environment }),
    async ensureRequest(content) {
      const found = (await requests.list(content.repository)).find(({ key }) => key === content.key);
      if (found?.state === "closed") {
        throw new ForgeError("closed", `a person closed request ${found.number} of ${content.repository.name}`);
      }
      const { key, branch, base, title, body } = content;
      const fresh = { number: 0, state: "open", mergeSha: null, comments: {} } as const;
      const stored = { ...fresh, ...found, key, branch, base, title: found?.title ?? title, body };
      const { number, url, state } = await requests.write(content.repository, stored);
      return { number, url, state };
    },
    async ensureComment({ repository, number, key, text }) {
      const found = await requests.read(repository, number);
      await requests.write(repository, { ...found, comments: { ...found.comments, [key]: text } });
      return { id: `${number}/${key}`, url: found.url };
    },
    ensureCheck: (report) => checks.write(report),
    readChecks: (repository, sha) => checks.list(repository, sha),
    async readRequest(repository, number): Promise<RequestState> {
      const found = await requests.read(repository, number);
      const headSha = (await branchSha(repository, found.branch)) ?? "";
      const { state, url, base, mergeSha } = found;
      const read = { checks: await checks.list(repository, headSha), review: "none" } as const;
      return { number, url, state, headSha, base, mergeSha, isMergeable: state === "open", ...read };
    },
    ...reading({ git, pathOf, branchSha, find: (repository, number) => requests.find(repository, number) }),
    // Nobody signs in to the local forge, and it runs no CI of its own.
    mayPush: async () => false,
    readJobLog: async () => null,
    async mergeRequest({ repository, number, sha }) {
      const found = await requests.read(repository, number);
      if (found.mergeSha !== null) return { merged: true, sha: found.mergeSha };
      if ((await branchSha(repository, found.branch)) !== sha) {
        throw new ForgeError("rejected", `request ${number} of ${repository.name} is no longer at ${sha.slice(0, 12)}`);
      }
      await fastForward(repository, found.base, sha);
      await requests.write(repository, { ...found, state: "merged", mergeSha: sha });
      return { merged: true, sha };
    },
  };
}

interface Reading extends Pick<ReturnType<typeof repositoriesIn>, "git" | "pathOf" | "branchSha"> {
  readonly find: (repository: ForgePlace, number: number) => Promise<StoredRequest | null>;
}

/** Reads what people put into a repository. */
const reading = ({
  git,
  pathOf,
  branchSha,
  find,
}: Reading): Pick<
  Forge,
  "readFile" | "readCommit" | "findOffered" | "isOurs" | "readEvents" | "readCheckNews" | "readSuite"
> => ({
  async readFile({ repository, sha, path, maxBytes }) {
    const shown = await git(pathOf(repository.name), ["cat-file", "-p", `${sha}:${path}`]);
    if (shown.exitCode !== 0) return null;
    if (Buffer.byteLength(shown.stdout) > maxBytes) throw tooLarge(path, maxBytes);
    return shown.stdout;
  },
  async readCommit({ name }, sha) {
    const shown = await git(pathOf(name), ["show", "-s", "--format=%P", `${sha}^{commit}`]);
    return { parents: shown.stdout.split(/\s+/).filter((parent) => parent !== ""), requestBranches: [] };
  },
  async findOffered(repository, number) {
    const found = await find(repository, number);
    if (found === null) return null;
    const sha = (await branchSha(repository, found.branch)) ?? "";
    return { branch: found.branch, sha, isOpen: found.state === "open" };
  },
  // Nobody but us acts there.
  readEvents: async () => null,
  readCheckNews: async () => [],
  readSuite: async () => [],
  isOurs: async () => false,
});

function repositoriesIn(folder: string, environment: Environment) {
  const pathOf = (name: string): string => {
    if (/^[\w-][\w.-]*\/[\w-][\w.-]*$/.test(name)) return join(folder, `${name}.git`);
    throw new ForgeError("invalid", `${JSON.stringify(name)} is not a repository name: write owner/name`);
  };
  const git = (gitDir: string, args: readonly string[]) => runGit(gitDir, args, { env: {}, environment });
  const find = async (name: string): Promise<ForgeRepository | null> => {
    const path = pathOf(name);
    if ((await stat(path).catch(() => null)) === null) return null; // absent is an answer
    const url = pathToFileURL(path).href;
    return { id: name, name, url, gitUrl: url, defaultBranch: "main", isPrivate: true, mayPush: true };
  };
  const ensure = async (name: string): Promise<ForgeRepository> => {
    const present = await find(name);
    if (present !== null) return present;
    const path = pathOf(name);
    const unfinished = `${path}.${randomUUID()}`;
    await mkdir(join(unfinished, "wavesmith", "requests"), { recursive: true });
    await mkdir(join(unfinished, "wavesmith", "checks"));
    const made = await git(unfinished, ["init", "-q", "--bare", "--template=", "--initial-branch=main", unfinished]);
    if (made.exitCode !== 0) throw new ForgeError("network", `${path} could not be made: ${made.stderr}`);
    await rename(unfinished, path).catch(async (error) => {
      // Another process was first.
      await rm(unfinished, { recursive: true });
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
    return (await find(name)) ?? ensure(name);
  };
  const branchSha = async ({ name }: ForgePlace, branch: string): Promise<string | null> => {
    const found = await git(pathOf(name), ["rev-parse", "--verify", "--quiet", `refs/heads/${branch}^{commit}`]);
    return found.exitCode === 0 ? found.stdout.trim() : null;
  };
  /** Moves a branch on to a commit; fails with `conflict` if that would leave commits out. */
  const fastForward = async (repository: ForgePlace, branch: string, sha: string): Promise<void> => {
    const before = await branchSha(repository, branch);
    const path = pathOf(repository.name);
    const isForward = before === null || (await git(path, ["merge-base", "--is-ancestor", before, sha])).exitCode === 0;
    if (!isForward) throw new ForgeError("conflict", `${branch} of ${repository.name} has moved on`);
    const moved = await git(path, ["update-ref", `refs/heads/${branch}`, sha, before ?? "0".repeat(40)]);
    if (moved.exitCode !== 0) throw new ForgeError("conflict", `${branch} could not be moved: ${moved.stderr}`);
  };
  return { pathOf, git, find, ensure, branchSha, fastForward };
}

type FolderOf = (repository: ForgePlace) => string;
type WithUrl<Stored> = Stored & { readonly url: string };

function requestFiles(folderOf: FolderOf) {
  const withUrl = (repository: ForgePlace, stored: StoredRequest): WithUrl<StoredRequest> => ({
    ...stored,
    url: pathToFileURL(join(folderOf(repository), `${stored.number}.json`)).href,
  });
  const list = async (repository: ForgePlace): Promise<WithUrl<StoredRequest>[]> => {
    const names = (await readdir(folderOf(repository))).filter((name) => /^\d+\.json$/.test(name));
    const texts = await Promise.all(names.map((name) => readFile(join(folderOf(repository), name), "utf8")));
    return texts.map((text) => withUrl(repository, JSON.parse(text) as StoredRequest));
  };
  const write = async (repository: ForgePlace, request: StoredRequest): Promise<WithUrl<StoredRequest>> => {
    const folder = folderOf(repository);
    const unfinished = join(folder, `.${randomUUID()}`);
    for (let number = request.number || 1; ; number += 1) {
      const { url: _, ...stored } = withUrl(repository, { ...request, number });
      await writeFile(unfinished, JSON.stringify(stored));
      const file = join(folder, `${number}.json`);
      if (request.number > 0) {
        await rename(unfinished, file);
        return withUrl(repository, stored);
      }
      const isOurs = await link(unfinished, file).then(
        () => true,
        (error) => {
          if (error.code === "EEXIST") return false;
          throw error;
        },
      );
      if (!isOurs) continue;
      await rm(unfinished);
      return withUrl(repository, stored);
    }
  };
  const find = async (repository: ForgePlace, number: number): Promise<WithUrl<StoredRequest> | null> =>
    (await list(repository)).find((request) => request.number === number) ?? null;
  const read = async (repository: ForgePlace, number: number): Promise<WithUrl<StoredRequest>> => {
    const found = await find(repository, number);
    if (found === null) throw new ForgeError("not-found", `${repository.name} has no request ${number}`);
    return found;
  };
  return { list, find, read, write };
}

function checkFiles(folderOf: FolderOf) {
  const fileOf = (repository: ForgePlace, sha: string): string => join(folderOf(repository), `${sha}.json`);
  const read = async (repository: ForgePlace, sha: string): Promise<Record<string, CheckReport>> => {
    const text = await readFile(fileOf(repository, sha), "utf8").catch(() => "{}"); // no check yet
    return JSON.parse(text) as Record<string, CheckReport>;
  };
  return {
    async write(report: CheckReport): Promise<void> {
      const { repository, sha } = report;
      const all = { ...(await read(repository, sha)), [report.key]: report };
      const unfinished = `${fileOf(repository, sha)}.${randomUUID()}`;
      await writeFile(unfinished, JSON.stringify(all));
      await rename(unfinished, fileOf(repository, sha));
    },
    async list(repository: ForgePlace, sha: string): Promise<ForgeCheck[]> {
      const reports = Object.values(await read(repository, sha));
      return reports.map(({ name, conclusion }) => ({
        name,
        state: conclusion === "failure" ? "failed" : "passed",
        url: null,
      }));
    },
  };
}
