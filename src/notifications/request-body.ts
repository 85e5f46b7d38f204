import type { Notice } from "../domain/events/notices.ts";

/** The request to send to an address. */
export interface NoticeRequest {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Whether we sign it; the chats have secret addresses instead. */
  readonly isSigned: boolean;
}

const json = { "content-type": "application/json" };

/**
 * Builds the request for an address: in the form that Slack, Discord or ntfy expects, otherwise as
 * Standard Webhooks (`type`, `timestamp`, `data`). `ntfy+https://host/topic` names an ntfy server
 * of your own.
 */
export function requestFor(address: string, notice: Notice): NoticeRequest {
  const isNtfy = address.startsWith("ntfy+");
  const url = new URL(isNtfy ? address.slice("ntfy+".length) : address);
  if (isNtfy || url.hostname === "ntfy.sh") {
    const link = notice.url === null ? {} : { click: notice.url };
    const headers = { "content-type": "text/plain; charset=utf-8", title: headerText(notice.title), ...link };
    return { url, headers, body: notice.text, isSigned: false };
  }
  if (url.hostname === "hooks.slack.com") {
    const link = notice.url === null ? "" : `\n<${slackText(notice.url)}|Open it in the dashboard>`;
    const text = `*${slackText(notice.title)}*\n${slackText(notice.text)}${link}`;
    return { url, headers: json, body: JSON.stringify({ text }), isSigned: false };
  }
  if (/^(discord|discordapp)\.com$/.test(url.hostname) && url.pathname.startsWith("/api/webhooks/")) {
    // Agents' text must not mention anybody.
    const link = notice.url === null ? "" : `\n${notice.url}`;
    const words = `**${notice.title}**\n${notice.text}`.slice(0, 2_000 - link.length);
    const body = { content: `${words}${link}`, allowed_mentions: { parse: [] } };
    return { url, headers: json, body: JSON.stringify(body), isSigned: false };
  }
  const { event: type, at, data, title, text, url: page } = notice;
  const body = JSON.stringify({ type, timestamp: at.toISOString(), data, title, text, url: page });
  return { url, headers: json, body, isSigned: true };
}

/** Slack reads these three as markup. */
const slackText = (text: string): string => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

/** A header takes only ASCII here; ntfy decodes this form (RFC 2047). */
const headerText = (text: string): string =>
  /^[\x20-\x7e]*$/.test(text) ? text : `=?UTF-8?B?${Buffer.from(text, "utf8").toString("base64")}?=`;
