import { messageOf } from "../domain/errors.ts";
import type { Notice } from "../domain/events/notices.ts";
import type { MailServer } from "../domain/mail-server.ts";
import type { NoticeSender, TryResult } from "./port.ts";

// ML1. A password goes to the server over TLS only, unless the server is on this machine.
// ML2. A plan may come from anybody who may start builds, so it can send mail only to addresses
// that the settings allow. Without that setting, only the default tenant's plans send any.

const timeoutMs = 8_000;

/** Sends a notice by mail. */
export async function sendMail(
  { server, to, sender }: { server: MailServer | null; to: string; sender: NoticeSender },
  notice: Notice,
): Promise<TryResult> {
  if (server === null) return failed("no mail server is set: set WAVESMITH_SMTP_SERVER");
  const { allowed } = server;
  if (allowed === null && !sender.isDefault)
    return failed(`the tenant ${sender.name} may send mail only where WAVESMITH_SMTP_TO allows it, which is not set`);
  const domain = to.slice(to.lastIndexOf("@") + 1).toLowerCase();
  if (allowed !== null && !allowed.some((one) => one.toLowerCase() === to.toLowerCase() || one === domain))
    return failed(`WAVESMITH_SMTP_TO does not allow ${to}`);
  const { createTransport } = await import("nodemailer");
  const { protocol, host, port, user, password, from } = server;
  const transport = createTransport({
    host,
    port,
    secure: protocol === "smtps",
    requireTLS: protocol === "smtp" && password !== null && !isOwnMachine(host),
    ignoreTLS: protocol === "smtp" && isOwnMachine(host),
    ...(user === null || password === null ? {} : { auth: { user, pass: password } }),
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  try {
    const title = notice.title.replace(/\s+/g, " ");
    await transport.sendMail({ from, to, ...mailOf({ ...notice, title }, from) });
    return { sent: true };
  } catch (error) {
    const { code, responseCode } = error as { code?: string; responseCode?: number };
    // 5xx about the address: the server will never take it.
    const isFinal = code === "EENVELOPE" && responseCode !== undefined && responseCode >= 550;
    return { ...failed(messageOf(error).split("\n")[0] ?? ""), isFinal };
  } finally {
    transport.close();
  }
}

const failed = (problem: string) => ({ sent: false, problem, isFinal: false, retryAfterMs: null }) as const;
const isOwnMachine = (host: string): boolean => /^(localhost|127(\.\d{1,3}){3}|::1)$/.test(host);

/** Writes a notice as a mail. Its id is the same in every try; mails of a build form a thread. */
function mailOf({ id, title, text, at, url, data }: Notice, from: string) {
  const domain = /@([^\s<>@]+)>?\s*$/.exec(from)?.[1] ?? "wavesmith.invalid";
  const thread = `<${String(data.buildId)}@${domain}>`;
  return {
    subject: title,
    messageId: `<${id}@${domain}>`,
    references: thread,
    inReplyTo: thread,
    date: at,
    headers: { "Auto-Submitted": "auto-generated" },
    text: url === null ? text : `${text}\n\n${url}`,
    html: pageOf({ title, text, url }),
  };
}

function pageOf({ title, text, url }: Pick<Notice, "title" | "text" | "url">): string {
  const lines = text.split("\n").map((line) => escapeMarkup(line));
  const link =
    url === null ? "" : `<p><a href="${escapeMarkup(url)}" style="font-weight:600">Open it in the dashboard</a></p>`;
  return `<!doctype html><html lang="en"><body style="font:15px/1.5 system-ui,sans-serif">
<p style="font-size:17px;font-weight:600">${escapeMarkup(title)}</p>
<p>${lines.join("<br>")}</p>${link}</body></html>`;
}

const escapeMarkup = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
