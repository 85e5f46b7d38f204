import type { ForgeIdentity } from "../port.ts";
import type { GitHubClients } from "./client.ts";

/** Asks GitHub whose credential is in use and what it may do. */
export async function identifyAccount(clients: GitHubClients): Promise<ForgeIdentity> {
  const credential = clients.credential();
  const none = { rights: [], rate: null, installed: null };
  if (credential === null) return { kind: "none", login: "", ...none };
  const { request } = clients.own();
  if (credential.kind === "app") {
    const { data } = await request("GET /app");
    const { data: installations } = await request("GET /app/installations", { per_page: 100 });
    const accounts = installations.flatMap(
      ({ account }) => account?.name ?? (account as { login?: string })?.login ?? [],
    );
    const rights = Object.entries(data?.permissions ?? {}).map(([name, level]) => `${name}: ${level}`);
    const installed = { accounts, url: `${data?.html_url}/installations/new` };
    return { ...none, kind: "app", login: data?.slug ?? data?.name ?? credential.appId, rights, installed };
  }
  const { data, headers } = await request("GET /user");
  const scopes = String(headers["x-oauth-scopes"] ?? "");
  const { data: rates } = await request("GET /rate_limit");
  const { remaining: left, limit, reset } = rates.resources.core;
  return {
    ...none,
    kind: "token",
    login: data.login,
    rights: scopes.split(",").flatMap((scope) => scope.trim() || []),
    rate: { left, limit, resetsAt: new Date(reset * 1_000) },
  };
}
