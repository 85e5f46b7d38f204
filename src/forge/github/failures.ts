import { RequestError } from "@octokit/request-error";
import { messageOf } from "../../domain/errors.ts";
import { ForgeError, type ForgeFault } from "../port.ts";

/** How long to wait when GitHub names no time (its documentation says a minute). */
const unnamedWaitMs = 60_000;

/** Turns an Octokit error into our failure, whose text never has the credential. */
export function failureOf(error: unknown): ForgeError {
  if (error instanceof ForgeError) return error;
  if (!(error instanceof RequestError)) return new ForgeError("network", `GitHub: ${graphqlText(error)}`, {});
  const { status, response } = error;
  const headers = response?.headers ?? {};
  const said = saidOf(response?.data) ?? error.message;
  const what = `GitHub answered ${status} to ${placeOf(error)}: ${said}`;
  const isLimit = status === 429 || (status === 403 && isRateLimit(headers, said));
  if (isLimit) return new ForgeError("rate-limited", what, { until: limitEnd(headers) });
  if (response === undefined) return unreachable(error);
  if (status >= 500) return new ForgeError("network", what);
  return new ForgeError(faultOf(status, said), what, remedyOf(status));
}

function unreachable({ message, request }: RequestError): ForgeError {
  const { origin } = new URL(request.url);
  const remedy = `see whether this machine reaches ${origin}, and look at WAVESMITH_GITHUB_API`;
  return new ForgeError("network", `GitHub cannot be reached: ${message}`, { remedy });
}

function remedyOf(status: number): { remedy?: string } {
  if (status === 401) return { remedy: "sign in again: wavesmith github setup" };
  if (status === 403) return { remedy: "give the token or App the permissions in docs/github.md" };
  return {};
}

function faultOf(status: number, said: string): ForgeFault {
  if (status === 304) return "unchanged";
  if (status === 401) return "unauthorized";
  if (status === 403) return "forbidden";
  if (status === 404 || status === 410) return "not-found";
  if (status === 405) return "protected";
  if (status === 409) return "conflict";
  if (status === 422 && /no history in common|no commits between/i.test(said)) return "conflict";
  return "invalid";
}

const isRateLimit = (headers: Headers, said: string): boolean =>
  headers["x-ratelimit-remaining"] === "0" || headers["retry-after"] !== undefined || /rate limit/i.test(said);

type Headers = Readonly<Record<string, string | number | undefined>>;

function limitEnd(headers: Headers): Date {
  const afterSeconds = Number(headers["retry-after"]);
  if (Number.isFinite(afterSeconds) && afterSeconds > 0) return new Date(Date.now() + afterSeconds * 1_000);
  const reset = Number(headers["x-ratelimit-reset"]);
  if (headers["x-ratelimit-remaining"] === "0" && Number.isFinite(reset)) return new Date(reset * 1_000);
  return new Date(Date.now() + unnamedWaitMs);
}

/** The method and path of a request, without its query and the secret code of a new App. */
function placeOf({ request: { method, url } }: RequestError): string {
  return `${method} ${new URL(url).pathname.replace(/(\/app-manifests\/)[^/]+/, "$1CODE")}`;
}

function saidOf(data: unknown): string | null {
  if (typeof data !== "object" || data === null || !("message" in data)) return null;
  const errors = "errors" in data && Array.isArray(data.errors) ? data.errors : [];
  const details = errors.map((detail: unknown) =>
    typeof detail === "object" && detail !== null && "message" in detail ? String(detail.message) : null,
  );
  return [String(data.message), ...details.filter((text) => text !== null)].join("; ").slice(0, 500);
}

const graphqlText = (error: unknown): string => messageOf(error).slice(0, 500);
