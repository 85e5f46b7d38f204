import { credentialEnvironment, pushWithLease } from "../git.ts";
import type { Forge } from "../port.ts";
import type { GitHubCredential, GitHubSettings } from "../settings.ts";
import { ensureCheckRun, ensureStatus, readChecks } from "./checks.ts";
import type { GitHubClients } from "./client.ts";
import { findOffered, readCommit, readFile } from "./contents.ts";
import { identifyAccount } from "./identity.ts";
import { readJobLog } from "./job-log.ts";
import { mergeRequest, readRequest } from "./merging.ts";
import { readCheckNews, readEvents, readSuite } from "./news.ts";
import { createPushRights } from "./push-rights.ts";
import { ensureRepository, findRepository, readBranch } from "./repositories.ts";
import { ensureComment, ensureRequest } from "./requests.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** GitHub, or GitHub Enterprise at addresses of its own. */
export function createGitHub({ webUrl }: GitHubSettings, clients: GitHubClients, environment: Environment): Forge {
  const gitEnvironment = async (url: string): Promise<Record<string, string>> => {
    if (clients.credential() === null || !url.startsWith(`${webUrl}/`)) return {};
    const client = await clients.of(url.slice(webUrl.length + 1).replace(/\.git$/, ""));
    return credentialEnvironment(webUrl, "x-access-token", await client.token());
  };
  const mayPush = createPushRights(
    (name) => clients.of(name),
    () => performance.now(),
  );
  const logins = new WeakMap<GitHubCredential, Promise<string>>();
  const ownLogin = (): Promise<string> => {
    const credential = clients.credential();
    const found =
      (credential && logins.get(credential)) ??
      identifyAccount(clients).then(({ kind, login }) => (kind === "app" ? `${login}[bot]` : login).toLowerCase());
    if (credential === null) return found;
    logins.set(credential, found);
    found.catch(() => logins.delete(credential));
    return found;
  };
  return {
    name: "github",
    identify: () => identifyAccount(clients),
    findRepository: (place) => findRepository(clients, webUrl, place),
    locateRepository: ({ id, name }) => ({ id, name, gitUrl: `${webUrl}/${name}.git` }),
    ensureRepository: (wanted) => ensureRepository(clients, webUrl, wanted),
    gitEnvironment,
    readBranch: async ({ name }, branch) => readBranch(await clients.of(name), name, branch),
    async pushBranch(request) {
      const url = request.repository.gitUrl;
      await pushWithLease(request, { url, env: await gitEnvironment(url), environment });
    },
    ensureRequest: async (content) => ensureRequest(await clients.of(content.repository.name), content),
    ensureComment: async (comment) =>
      ensureComment(await clients.of(comment.repository.name), await ownLogin(), comment),
    async ensureCheck(report) {
      const client = await clients.of(report.repository.name);
      await (clients.credential()?.kind === "app" ? ensureCheckRun : ensureStatus)(client, report);
    },
    readChecks: async ({ name }, sha) => readChecks(await clients.of(name), name, sha),
    readRequest: async (repository, number) =>
      readRequest(await clients.of(repository.name), repository, { number, mayPush }),
    mayPush,
    readFile: async (file) => readFile(await clients.of(file.repository.name), file),
    readCommit: async (repository, sha) => readCommit(await clients.of(repository.name), repository, sha),
    findOffered: async (repository, number) => findOffered(await clients.of(repository.name), repository, number),
    readEvents: async (repository, etag) => readEvents(await clients.of(repository.name), repository, etag),
    readCheckNews: async (repository, known) => readCheckNews(await clients.of(repository.name), repository, known),
    readSuite: async (repository, suiteId) => readSuite(await clients.of(repository.name), repository, suiteId),
    isOurs: async (account) => clients.credential()?.kind === "app" && account.toLowerCase() === (await ownLogin()),
    readJobLog: async (repository, jobId) => readJobLog(await clients.of(repository.name), repository, jobId),
    mergeRequest: async (request) => mergeRequest(await clients.of(request.repository.name), request),
  };
}
