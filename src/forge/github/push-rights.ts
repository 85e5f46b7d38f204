import type { ForgePlace } from "../port.ts";
import type { GitHubClient } from "./client.ts";
import { placeOf, unlessMissing } from "./repositories.ts";

/** Whether an account may push to a repository. */
async function mayPush({ request }: GitHubClient, { name }: ForgePlace, login: string): Promise<boolean> {
  const found = await unlessMissing(
    request("GET /repos/{owner}/{repo}/collaborators/{username}/permission", { ...placeOf(name), username: login }),
  );
  // GitHub counts `maintain` as `write` here.
  return found !== null && ["admin", "write"].includes(found.data.permission);
}

/** How long we believe that somebody may push: one build asks about the same few people often. */
const believedMs = 60_000;

/** Asks whether accounts may push, and remembers for a minute those who may. */
export function createPushRights(clientOf: (name: string) => Promise<GitHubClient>, nowMs: () => number) {
  const believed = new Map<string, number>();
  return async (repository: ForgePlace, login: string): Promise<boolean> => {
    for (const [key, untilMs] of believed) if (untilMs <= nowMs()) believed.delete(key);
    const key = `${repository.name}/${login}`.toLowerCase();
    if (believed.has(key)) return true;
    const may = await mayPush(await clientOf(repository.name), repository, login);
    if (may) believed.set(key, nowMs() + believedMs);
    return may;
  };
}
