import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { isIP } from "node:net";
import { messageOf } from "../domain/errors.ts";
import { pagePathOf } from "../domain/events/notices.ts";
import type { MailServer } from "../domain/mail-server.ts";
import { kindOfAddress } from "../sandbox/egress/addresses.ts";
import { publicLookup } from "../sandbox/egress/public-lookup.ts";
import { sendMail } from "./mail.ts";
import type { Notifier, TryResult } from "./port.ts";
import { type NoticeRequest, requestFor } from "./request-body.ts";
import { signatureOf } from "./signature.ts";

// NS1. A plan may come from anybody who may start builds. So an address on this machine or in a
// private network is called only when the setting names its host. The connection goes to the
// address that was checked, and redirects are not followed.

const timeoutMs = 8_000;
const longestRetryAfterMs = 60 * 60_000;

export interface NotifierOptions {
  /** The key that signs webhooks; chats get no signature. */
  readonly key: () => Promise<string>;
  /** `host` or `host:port` of private receivers that may be called. */
  readonly privateHosts: readonly string[];
  readonly mailServer: MailServer | null;
  /** Returns the dashboard's address, for links; null if there is none. */
  readonly origin: () => Promise<string | null>;
  readonly now: () => Date;
}

/** Sends notices over HTTP and by mail. */
export function createNotifier({ key, privateHosts, mailServer, origin, now }: NotifierOptions): Notifier {
  return {
    async send(address, fact, sender) {
      const at = await origin().catch(() => null); // a notice without a link is better than none
      const notice = { ...fact, url: at === null ? null : `${at}${pagePathOf(fact)}` };
      try {
        if (address.startsWith("mailto:")) {
          return await sendMail({ server: mailServer, to: address.slice("mailto:".length), sender }, notice);
        }
        const wanted = requestFor(address, notice);
        const seconds = Math.floor(now().getTime() / 1000);
        const signature = wanted.isSigned
          ? { "webhook-signature": signatureOf(await key(), { id: notice.id, seconds, body: wanted.body }) }
          : {};
        const headers = { "webhook-id": notice.id, "webhook-timestamp": String(seconds), ...signature };
        return await post(wanted, headers, isNamed(wanted.url, privateHosts));
      } catch (error) {
        return { sent: false, problem: messageOf(error), isFinal: false, retryAfterMs: null };
      }
    },
  };
}

const isNamed = ({ hostname, host }: URL, hosts: readonly string[]): boolean =>
  hosts.includes(host) || hosts.includes(hostname);

function post(wanted: NoticeRequest, headers: Readonly<Record<string, string>>, mayBePrivate: boolean) {
  const { url, body } = wanted;
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(host) !== 0 && !mayBePrivate && kindOfAddress(host) !== "public") throw isPrivate(url, host);
  const options = {
    method: "POST",
    headers: { "user-agent": "wavesmith", "content-length": Buffer.byteLength(body), ...wanted.headers, ...headers },
    signal: AbortSignal.timeout(timeoutMs),
    lookup: mayBePrivate ? undefined : publicLookup((address) => isPrivate(url, address)),
    agent: false as const,
  };
  return new Promise<TryResult>((resolve, reject) => {
    const request = url.protocol === "https:" ? httpsRequest(url, options) : httpRequest(url, options);
    request.on("error", reject);
    request.on("response", (response) => {
      response.destroy(); // Its status says it all.
      resolve(resultOf(response));
    });
    request.end(body);
  });
}

const isPrivate = ({ host }: URL, address: string): Error =>
  new Error(`${host} is ${address}, which is not a public address: name ${host} in WAVESMITH_NOTIFY_HOSTS to allow it`);

function resultOf({ statusCode = 0, headers }: IncomingMessage): TryResult {
  if (statusCode >= 200 && statusCode < 300) return { sent: true };
  const seconds = Number(headers["retry-after"]);
  const retryAfterMs = Number.isFinite(seconds) && seconds > 0 ? Math.min(seconds * 1000, longestRetryAfterMs) : null;
  return { sent: false, problem: `it answered ${statusCode}`, isFinal: statusCode === 410, retryAfterMs };
}
