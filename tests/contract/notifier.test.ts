import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Notice } from "../../src/domain/events/notices.ts";
import { createNotifier } from "../../src/notifications/notifier.ts";
import { requestFor } from "../../src/notifications/request-body.ts";
import { signatureOf } from "../../src/notifications/signature.ts";
import { createWebhookReceiver, type WebhookReceiver } from "../support/webhook-receiver.ts";

const key = "a key of sixteen letters";
const notice: Notice = {
  id: "ntf_1",
  event: "project/wave.blocked",
  at: new Date("2026-11-22T10:00:00Z"),
  data: { buildId: "bld_1", waveNumber: 2, reason: "tests failed" },
  title: "shop: wave 2 is blocked",
  text: "tests <failed> & more\nwavesmith status bld_1",
  url: "https://wavesmith.example.org/builds/bld_1",
};

describe("what is sent", () => {
  it("is signed as Standard Webhooks specifies", () => {
    const message = { id: "msg_p5jXN8AQM9LWM0D4loKWxJek", seconds: 1_614_265_330, body: '{"test": 2432232314}' };
    // The example in the specification.
    expect(signatureOf("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", message)).toBe(
      "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    );
  });

  it("has the form that each chat expects, and mentions nobody", () => {
    const slack = requestFor("https://hooks.slack.com/services/T/B/x", notice);
    const elements = [
      { type: "text", text: notice.title, style: { bold: true } },
      { type: "text", text: `\n${notice.text}` },
      { type: "text", text: "\n" },
      { type: "link", url: notice.url, text: "Open it in the dashboard" },
    ];
    expect([slack.isSigned, JSON.parse(slack.body)]).toEqual([
      false,
      {
        text: "shop: wave 2 is blocked",
        blocks: [{ type: "rich_text", elements: [{ type: "rich_text_section", elements }] }],
      },
    ]);
    const discord = requestFor("https://discord.com/api/webhooks/1/x", notice);
    expect(JSON.parse(discord.body)).toEqual({
      content: `**shop: wave 2 is blocked**\ntests \\<failed\\> & more\nwavesmith status bld\\_1\n${notice.url}`,
      allowed_mentions: { parse: [] },
    });
    const ntfy = requestFor("ntfy+http://192.168.0.7:8080/builds", { ...notice, title: "café" });
    expect([ntfy.url.href, ntfy.headers.title, ntfy.headers.click, ntfy.body]).toEqual([
      "http://192.168.0.7:8080/builds",
      "=?UTF-8?B?Y2Fmw6k=?=",
      notice.url,
      notice.text,
    ]);
  });
});

describe("a name with a chat's markup in it", () => {
  const title = "shop: the schedule *nightly* & <!channel> _2_ is paused";
  const odd = { ...notice, title, text: "~no~ `code`\n> # @everyone [a](b) \\" };

  it("is shown by Slack as it is: in rich text, which has no markup", () => {
    const { text, blocks } = JSON.parse(requestFor("https://hooks.slack.com/services/T/B/x", odd).body);
    const [heading, body] = blocks[0].elements[0].elements;
    expect([heading.text, body.text]).toEqual([title, `\n${odd.text}`]);
    expect(text).toBe("shop: the schedule *nightly* &amp; &lt;!channel&gt; _2_ is paused");
  });

  it("is escaped for Discord, also where the message is cut", () => {
    const { content } = JSON.parse(requestFor("https://discord.com/api/webhooks/1/x", odd).body);
    expect(content).toBe(
      [
        "**shop: the schedule \\*nightly\\* & \\<!channel\\> \\_2\\_ is paused**",
        "\\~no\\~ \\`code\\`",
        "\\> \\# \\@everyone \\[a\\](b) \\\\",
        odd.url,
      ].join("\n"),
    );
    for (const text of ["*".repeat(3_000), `a${"*".repeat(3_000)}`]) {
      const cut = JSON.parse(requestFor("https://discord.com/api/webhooks/1/x", { ...odd, text }).body).content;
      expect(cut.length).toBeLessThanOrEqual(2_000);
      expect(cut).toMatch(/\\\*\nhttps:/);
    }
  });
});

const sender = { name: "default", isDefault: true };

describe("a notifier", () => {
  let receiver: WebhookReceiver;
  beforeEach(async () => {
    receiver = await createWebhookReceiver();
  });
  afterEach(() => receiver.close());
  const notifierOf = (...privateHosts: string[]) =>
    createNotifier({
      ...{ key: async () => key, privateHosts, mailServer: null, now: () => new Date("2026-11-22T10:00:05Z") },
      origin: async () => "https://wavesmith.example.org",
    });

  it("sends the event with its id and a signature that the receiver can verify", async () => {
    const result = await notifierOf("127.0.0.1").send(`${receiver.url}/hook?x=1`, notice, sender);
    expect(result).toEqual({ sent: true });
    const [{ path, headers, body }] = receiver.received as [WebhookReceiver["received"][0]];
    expect(path).toBe("/hook?x=1");
    expect(JSON.parse(body)).toEqual({
      type: notice.event,
      timestamp: "2026-11-22T10:00:00.000Z",
      data: notice.data,
      title: notice.title,
      text: notice.text,
      url: notice.url,
    });
    const seconds = Number(headers["webhook-timestamp"]);
    expect(headers["webhook-id"]).toBe("ntf_1");
    expect(headers["webhook-signature"]).toBe(signatureOf(key, { id: "ntf_1", seconds, body }));
  });

  it.each([
    [{ status: 500 }, { isFinal: false, retryAfterMs: null, problem: "it answered 500" }],
    [
      { status: 429, headers: { "retry-after": "7" } },
      { isFinal: false, retryAfterMs: 7_000 },
    ],
    [
      { status: 503, headers: { "retry-after": "999999" } },
      { isFinal: false, retryAfterMs: 3_600_000 },
    ],
    [{ status: 410 }, { isFinal: true }],
    [
      { status: 302, headers: { location: "/elsewhere" } },
      { isFinal: false, problem: "it answered 302" },
    ],
  ])("takes %j for a failure and follows no redirect", async (answer, expected) => {
    receiver.answer = answer;
    const result = await notifierOf("127.0.0.1").send(receiver.url, notice, sender);
    expect(result).toMatchObject({ sent: false, ...expected });
    expect(receiver.received).toHaveLength(1);
  });

  it("gives up on a receiver that is gone, and says why", async () => {
    await receiver.close();
    const result = await notifierOf("127.0.0.1").send(receiver.url, notice, sender);
    expect(result).toMatchObject({ sent: false, problem: expect.stringContaining("ECONNREFUSED") });
    receiver = await createWebhookReceiver();
  });

  it("calls a private address only if the setting names its host", async () => {
    const localhost = `http://localhost:${receiver.port}/`;
    for (const address of [receiver.url, localhost, "http://[::1]:1/", "http://169.254.169.254/latest"]) {
      const result = await notifierOf().send(address, notice, sender);
      expect(result).toMatchObject({ sent: false, problem: expect.stringContaining("WAVESMITH_NOTIFY_HOSTS") });
    }
    expect(await notifierOf("127.0.0.1:1").send(receiver.url, notice, sender)).toMatchObject({ sent: false });
    expect(receiver.received).toEqual([]);
    expect(await notifierOf(`127.0.0.1:${receiver.port}`).send(receiver.url, notice, sender)).toEqual({ sent: true });
  });
});
