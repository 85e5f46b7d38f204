import { credentialEnvironment, pushWithLease } from "../git.ts";
import type { Forge, ForgeIdentity } from "../port.ts";
import type { GitHubSettings } from "../settings.ts";
import { ensureCheckRun, ensureStatus, readChecks } from "./checks.ts";
import { createClients, type GitHubClients } from "./client.ts";
import { mergeRequest, readRequest } from "./merging.ts";
import { mayPush, readJobLog } from "./outsiders.ts";
import { ensureRepository, findRepository, readBranch } from "./repositories.ts";
import { ensureComment, ensureRequest } from "./requests.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** GitHub, or GitHub Enterprise at addresses of its own. */
export function createGitHub(
  settings: GitHubSettings,
  environment: Environment,
): Forge & Pick<GitHubClients, "secrets"> {
  const { webUrl, credential } = settings;
  const clients = createClients(settings);
  const gitEnvironment = async (url: string): Promise<Record<string, string>> => {
    if (credential === null || !url.startsWith(`${webUrl}/`)) return {};
    const client = await clients.of(url.slice(webUrl.length + 1).replace(/\.git$/, ""));
    return credentialEnvironment(webUrl, "x-access-token", await client.token());
  };
  let login: Promise<string> | null = null;
  const ownLogin = (): Promise<string> => {
    login ??= identify(settings, clients).then(({ kind, login: name }) =>
      (kind === "app" ? `${name}[bot]` : name).toLowerCase(),
    );
    login.catch(() => {
      login = null;
    });
    return login;
  };
  return {
    name: "github",
    secrets: () => clients.secrets(),
    identify: () => identify(settings, clients),
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
      await (credential?.kind === "app" ? ensureCheckRun : ensureStatus)(client, report);
    },
    readChecks: async ({ name }, sha) => readChecks(await clients.of(name), name, sha),
    readRequest: async (repository, number) => readRequest(await clients.of(repository.name), repository, number),
    mayPush: async (repository, login) => mayPush(await clients.of(repository.name), repository, login),
    readJobLog: async (repository, jobId) => readJobLog(await clients.of(repository.name), repository, jobId),
    mergeRequest: async (request) => mergeRequest(await clients.of(request.repository.name), request),
  };
}

async function identify({ credential }: GitHubSettings, clients: GitHubClients): Promise<ForgeIdentity> {
  if (credential === null) return { kind: "none", login: "", rights: [], rate: null };
  const { request } = clients.own();
  if (credential.kind === "app") {
    const { data } = await request("GET /app");
    const rights = Object.entries(data?.permissions ?? {}).map(([name, level]) => `${name}: ${level}`);
    return { kind: "app", login: data?.slug ?? data?.name ?? credential.appId, rights, rate: null };
  }
  const { data, headers } = await request("GET /user");
  const scopes = String(headers["x-oauth-scopes"] ?? "");
  const { data: rates } = await request("GET /rate_limit");
  const { remaining: left, limit, reset } = rates.resources.core;
  return {
    kind: "token",
    login: data.login,
    rights: scopes.split(",").flatMap((scope) => scope.trim() || []),
    rate: { left, limit, resetsAt: new Date(reset * 1_000) },
  };
}
