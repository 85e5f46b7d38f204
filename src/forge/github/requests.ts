import { ForgeError, type RequestContent, type RequestMade } from "../port.ts";
import type { GitHubClient } from "./client.ts";
import { placeOf, unlessMissing } from "./repositories.ts";

// GR1. Our part of a request's text is between two hidden marks that name its key. With them we
// find a request that we opened before a crash, and we keep what people write around them.

const beginMark = (key: string): string => `<!-- wavesmith:begin ${key} -->`;
const endMark = (key: string): string => `<!-- wavesmith:end ${key} -->`;
const longestBody = 60_000;

interface Found {
  readonly number: number;
  readonly html_url: string;
  readonly state: string;
  readonly merged_at: string | null;
  readonly body: string | null;
  readonly base: { readonly ref: string };
}

const madeOf = ({ number, html_url: url, state, merged_at }: Found): RequestMade => ({
  number,
  url,
  state: merged_at !== null ? "merged" : state === "closed" ? "closed" : "open",
});

/** See `Forge.ensureRequest`. */
export async function ensureRequest(client: GitHubClient, content: RequestContent): Promise<RequestMade> {
  const { repository, key, branch, base, title } = content;
  const found = await findRequest(client, content);
  if (found === null) {
    const body = bodyWith(null, key, content.body);
    const { data } = await client.request("POST /repos/{owner}/{repo}/pulls", {
      ...placeOf(repository.name),
      ...{ head: branch, base, title, body, maintainer_can_modify: true },
    });
    return madeOf(data);
  }
  const made = madeOf(found);
  if (made.state === "closed") throw closed(content, made);
  const body = bodyWith(found.body, key, content.body);
  if (made.state === "open" && (body !== found.body || found.base.ref !== base)) {
    await client.request("PATCH /repos/{owner}/{repo}/pulls/{pull_number}", {
      ...placeOf(repository.name),
      ...{ pull_number: made.number, body, base },
    });
  }
  return made;
}

const closed = ({ repository }: RequestContent, { number, url }: RequestMade): ForgeError =>
  new ForgeError(
    "closed",
    `a person closed pull request ${number} of ${repository.name}, so it stays closed (${url})`,
    {
      remedy: "open it again there",
    },
  );

async function findRequest({ request }: GitHubClient, content: RequestContent): Promise<Found | null> {
  const place = placeOf(content.repository.name);
  if (content.number !== null) {
    const known = await unlessMissing(
      request("GET /repos/{owner}/{repo}/pulls/{pull_number}", { ...place, pull_number: content.number }),
    );
    if (known !== null) return known.data;
  }
  const { data } = await request("GET /repos/{owner}/{repo}/pulls", {
    ...place,
    ...{ head: `${place.owner}:${content.branch}`, state: "all" as const, per_page: 100 },
  });
  const marked = data.filter(({ body }) => body?.includes(beginMark(content.key)) === true);
  const open = (one: Found): boolean => one.state === "open";
  // A person may have opened one from our branch, and GitHub allows no second one.
  const same = data.find((one) => open(one) && one.base.ref === content.base);
  return marked.find(open) ?? same ?? marked.find(({ merged_at }) => merged_at !== null) ?? marked[0] ?? null;
}

/** Puts our part into a text, replacing the earlier one. */
function bodyWith(present: string | null, key: string, ours: string): string {
  const begin = beginMark(key);
  const end = endMark(key);
  // Agents' text must not contain the mark that ends our part.
  const safe = ours.replaceAll("<!--", "&lt;!--").slice(0, longestBody);
  const part = `${begin}\n${safe}\n${end}`;
  const text = present ?? "";
  const from = text.indexOf(begin);
  const to = text.indexOf(end, from);
  if (from === -1) return text === "" ? part : `${text}\n\n${part}`;
  return `${text.slice(0, from)}${part}${to === -1 ? "" : text.slice(to + end.length)}`;
}

/** See `Forge.ensureComment`. A comment with our mark by somebody else is not ours. */
export async function ensureComment(
  { request }: GitHubClient,
  ownLogin: string,
  { repository, number, key, text }: { repository: { name: string }; number: number; key: string; text: string },
): Promise<{ id: string; url: string }> {
  const place = { ...placeOf(repository.name), issue_number: number };
  const body = bodyWith(null, key, text);
  for (let page = 1; page <= 20; page += 1) {
    const { data } = await request("GET /repos/{owner}/{repo}/issues/{issue_number}/comments", {
      ...place,
      ...{ per_page: 100, page },
    });
    const isOurs = ({ user }: { user: { login: string } | null }) => user?.login.toLowerCase() === ownLogin;
    const found = data.find((comment) => comment.body?.includes(beginMark(key)) === true && isOurs(comment));
    if (found !== undefined) {
      const { id, html_url: url } = found;
      if (found.body !== body) {
        await request("PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}", {
          ...placeOf(repository.name),
          ...{ comment_id: id, body },
        });
      }
      return { id: String(id), url };
    }
    if (data.length < 100) break;
  }
  const { data } = await request("POST /repos/{owner}/{repo}/issues/{issue_number}/comments", { ...place, body });
  return { id: String(data.id), url: data.html_url };
}
