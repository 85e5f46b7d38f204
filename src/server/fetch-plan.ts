import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { isIP } from "node:net";
import { messageOf, WavesmithError } from "../domain/errors.ts";
import { kindOfAddress } from "../sandbox/egress/addresses.ts";
import { publicLookup } from "../sandbox/egress/public-lookup.ts";

// PU1. Anybody who may start builds chooses the address, so this server fetches plans only over
// https and from public addresses, unless the setting names the host. Each redirect is checked like
// the first address, and the connection goes to the address that was checked.

const maxPlanBytes = 4 * 1024 * 1024;
const maxRedirects = 3;

interface FetchOptions {
  /** `host` or `host:port` of hosts that may be private, and may answer over plain http. */
  readonly privateHosts: readonly string[];
  /** Milliseconds for all of it. */
  readonly timeoutMs?: number;
}

/** Fetches the text of a plan. Fails with `usage`, saying why. */
export async function fetchPlan(address: string, { privateHosts, timeoutMs = 15_000 }: FetchOptions): Promise<string> {
  const late = AbortSignal.timeout(timeoutMs);
  let url = checkedUrl(address, privateHosts);
  for (let redirects = 0; ; redirects += 1) {
    const response = await get(url, isNamed(url, privateHosts), late).catch((error: unknown) => {
      throw error instanceof WavesmithError
        ? error
        : cannotFetch(url, late.aborted ? "it took too long" : messageOf(error));
    });
    const { statusCode = 0, headers } = response;
    if (statusCode >= 200 && statusCode < 300) return readText(response, url, late);
    response.destroy();
    const isRedirect = [301, 302, 303, 307, 308].includes(statusCode) && headers.location !== undefined;
    if (!isRedirect) throw cannotFetch(url, `it answered ${statusCode}`);
    if (redirects === maxRedirects) throw cannotFetch(url, `it redirects more than ${maxRedirects} times`);
    url = checkedUrl(headers.location ?? "", privateHosts, url);
  }
}

const isNamed = ({ hostname, host }: URL, hosts: readonly string[]): boolean =>
  hosts.includes(host) || hosts.includes(hostname);

function checkedUrl(text: string, privateHosts: readonly string[], base?: URL): URL {
  if (!URL.canParse(text, base?.href))
    throw new WavesmithError("usage", `planUrl ${JSON.stringify(text)} is not a URL`);
  const url = new URL(text, base);
  if (url.username !== "" || url.password !== "") throw cannotFetch(url, "it must not have a user or password");
  const isPlain = url.protocol === "http:" && isNamed(url, privateHosts);
  if (url.protocol !== "https:" && !isPlain) throw cannotFetch(url, "it must begin with https://");
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(host) !== 0 && !isNamed(url, privateHosts) && kindOfAddress(host) !== "public") throw notPublic(url);
  return url;
}

/** Does not name the address, because that would reveal this network's hosts. */
const notPublic = (url: URL): WavesmithError =>
  cannotFetch(url, "its address is not public", "the operator of the server can allow its host: WAVESMITH_PLAN_HOSTS");

const cannotFetch = (url: URL, why: string, remedy = "send the plan itself instead"): WavesmithError =>
  new WavesmithError("usage", `the plan at ${url.origin} cannot be fetched: ${why}`, { remedy });

function get(url: URL, mayBePrivate: boolean, signal: AbortSignal): Promise<IncomingMessage> {
  const options = {
    headers: { "user-agent": "wavesmith", accept: "application/yaml, application/json, text/plain, */*" },
    signal,
    lookup: mayBePrivate ? undefined : publicLookup(() => notPublic(url)),
    agent: false as const,
  };
  return new Promise((resolve, reject) => {
    const request = url.protocol === "https:" ? httpsRequest(url, options) : httpRequest(url, options);
    request.on("error", reject);
    request.on("response", resolve);
    request.end();
  });
}

async function readText(response: IncomingMessage, url: URL, late: AbortSignal): Promise<string> {
  const parts: Buffer[] = [];
  let sizeBytes = 0;
  try {
    for await (const part of response as AsyncIterable<Buffer>) {
      sizeBytes += part.length;
      if (sizeBytes > maxPlanBytes) throw cannotFetch(url, `it is larger than ${maxPlanBytes} bytes`);
      parts.push(part);
    }
  } catch (error) {
    if (error instanceof WavesmithError) throw error;
    throw cannotFetch(url, late.aborted ? "it took too long" : messageOf(error));
  }
  return Buffer.concat(parts).toString("utf8");
}
