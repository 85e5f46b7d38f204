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
    return { url, headers: json, body: JSON.stringify(slackMessage(notice)), isSigned: false };
  }
  if (/^(discord|discordapp)\.com$/.test(url.hostname) && url.pathname.startsWith("/api/webhooks/")) {
    return { url, headers: json, body: JSON.stringify(discordMessage(notice)), isSigned: false };
  }
  const { event: type, at, data, title, text, url: page } = notice;
  const body = JSON.stringify({ type, timestamp: at.toISOString(), data, title, text, url: page });
  return { url, headers: json, body, isSigned: true };
}

/**
 * Names and agents' text may hold any characters, and Slack's markup has no escape for its own. So
 * they go into rich text, where Slack reads none. Phones show `text`.
 */
function slackMessage({ title, text, url }: Notice): object {
  const bold = { type: "text", text: title, style: { bold: true } };
  const link = [
    { type: "text", text: "\n" },
    { type: "link", url, text: "Open it in the dashboard" },
  ];
  const elements = [bold, { type: "text", text: `\n${text}` }, ...(url === null ? [] : link)];
  const blocks = [{ type: "rich_text", elements: [{ type: "rich_text_section", elements }] }];
  return { text: title.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;"), blocks };
}

const discordLimit = 2_000;

/** Agents' text must not mention anybody or be read as markup. */
function discordMessage({ title, text, url }: Notice): object {
  const link = url === null ? "" : `\n${url}`;
  const words = `**${discordText(title)}**\n${discordText(text)}`.slice(0, discordLimit - link.length);
  // A cut escape would escape the line break.
  return { content: `${words.replace(/(?<!\\)(?:\\\\)*\\$/, "")}${link}`, allowed_mentions: { parse: [] } };
}

const discordText = (text: string): string => text.replace(/[\\*_~`|<>@#[\]-]/g, "\\$&");

/** A header takes only ASCII here; ntfy decodes this form (RFC 2047). */
const headerText = (text: string): string =>
  /^[\x20-\x7e]*$/.test(text) ? text : `=?UTF-8?B?${Buffer.from(text, "utf8").toString("base64")}?=`;
