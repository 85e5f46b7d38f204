import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadConfig } from "../../src/config.ts";
import type { NoticeFacts } from "../../src/domain/events/notices.ts";
import { createNotifier } from "../../src/notifications/notifier.ts";
import type { TryResult } from "../../src/notifications/port.ts";
import { createMailReceiver, type MailReceiver } from "../support/mail-receiver.ts";

const password = "s3cret-password";
const mailModule = new URL("../../src/notifications/mail.ts", import.meta.url).href;
const notice: NoticeFacts = {
  id: "ntf_1",
  event: "agent/question.asked",
  at: new Date("2026-11-22T10:00:00Z"),
  data: { buildId: "bld_1", taskKey: "api", questionId: 3 },
  title: "shop: backend asks you something\r\nBcc: victim@example.org",
  text: 'Run <b>rm</b> & "go"?\nwavesmith answer bld_1',
};

describe("a notice by mail", () => {
  let receiver: MailReceiver;
  beforeEach(async () => {
    receiver = await createMailReceiver({ disabledCommands: ["STARTTLS"], allowInsecureAuth: true });
  });
  afterEach(() => receiver.close());

  const own = { name: "default", isDefault: true };
  const send = (to: string, env: Record<string, string> = {}, sender = own): Promise<TryResult> => {
    const { mailServer } = loadConfig({
      WAVESMITH_SMTP_SERVER: `smtp://127.0.0.1:${receiver.port}`,
      WAVESMITH_SMTP_FROM: "Wavesmith <builds@example.org>",
      ...env,
    });
    return createNotifier({
      ...{ key: async () => "", privateHosts: [], mailServer, now: () => new Date() },
      origin: async () => "https://wavesmith.example.org",
    }).send(`mailto:${to}`, notice, sender);
  };
  const login = { WAVESMITH_SMTP_USER: "builds", WAVESMITH_SMTP_PASSWORD: password };

  it("has a text and a page, with a link to the decision, and the same id in every try", async () => {
    expect(await send("team@example.org", login)).toEqual({ sent: true });
    expect(await send("team@example.org", login)).toEqual({ sent: true });
    const [{ from, to, user, text }, again] = receiver.received as [MailReceiver["received"][0], never];
    expect([from, to, user]).toEqual(["builds@example.org", ["team@example.org"], "builds"]);
    const body = text.replace(/=\r\n/g, "").replace(/=3D/g, "=");
    expect(body).toContain("Message-ID: <ntf_1@example.org>");
    expect(body).toContain("References: <bld_1@example.org>");
    expect(body, "a title cannot add a header").not.toMatch(/^Bcc:/m);
    expect(body).toContain(
      'Run <b>rm</b> & "go"?\r\nwavesmith answer bld_1\r\n\r\nhttps://wavesmith.example.org/builds/bld_1?task=api',
    );
    expect(body).toContain("Run &lt;b&gt;rm&lt;/b&gt; &amp; &quot;go&quot;?<br>wavesmith answer bld_1");
    expect(body).toContain('<a href="https://wavesmith.example.org/builds/bld_1?task=api"');
    expect((again as MailReceiver["received"][0]).text).toContain("<ntf_1@example.org>");
  });

  it("is tried again after a wrong password and a server that does not answer, and says why", async () => {
    const wrong = await send("team@example.org", { ...login, WAVESMITH_SMTP_PASSWORD: "wr0ng-password" });
    expect(wrong).toMatchObject({ sent: false, isFinal: false, problem: expect.stringMatching(/Invalid login.*535/) });
    expect(JSON.stringify(wrong)).not.toContain("wr0ng");
    const gone = await send("team@example.org", { WAVESMITH_SMTP_SERVER: "smtp://127.0.0.1:1" });
    expect(gone).toMatchObject({ sent: false, isFinal: false, problem: expect.stringContaining("ECONNREFUSED") });
  });

  it("is given up for a mailbox that does not exist", async () => {
    const result = await send("nobody@example.org");
    expect(result).toMatchObject({ sent: false, isFinal: true, problem: expect.stringContaining("no such mailbox") });
  });

  it("goes to no server whose certificate is not trusted, and the password is not sent there", async () => {
    const strange = await createMailReceiver({ secure: true });
    try {
      const result = await send("team@example.org", {
        ...login,
        WAVESMITH_SMTP_SERVER: `smtps://127.0.0.1:${strange.port}`,
      });
      expect(result).toMatchObject({ sent: false, isFinal: false, problem: expect.stringMatching(/certificate/i) });
      expect([strange.logins(), strange.received]).toEqual([0, []]);
    } finally {
      await strange.close();
    }
  });

  it("switches to TLS before it sends the password, if the server's authority is trusted", async () => {
    const folder = mkdtempSync(join(tmpdir(), "wavesmith-mail-"));
    const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
    // We do not count this as a name of this machine, for which TLS is optional, but Linux connects
    // it to loopback.
    const host = "0.0.0.0";
    const request = [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:prime256v1",
      "-nodes",
      "-days",
      "2",
    ];
    const names = ["-subj", "/CN=mail", "-addext", `subjectAltName=IP:${host}`];
    execFileSync("openssl", [...request, ...names, "-keyout", key, "-out", cert], { stdio: "ignore" });
    const strict = await createMailReceiver({ key: readFileSync(key), cert: readFileSync(cert) });
    const server = { protocol: "smtp", host, port: strict.port, user: "builds", password, from: "builds@example.org" };
    const input = { server: { ...server, allowed: null }, to: "team@example.org", sender: own };
    const program = `const { sendMail } = await import(${JSON.stringify(mailModule)});
      const notice = { ...${JSON.stringify(notice)}, at: new Date(), url: null };
      console.log(JSON.stringify(await sendMail(${JSON.stringify(input)}, notice)));`;
    const run = async (env: Record<string, string>) => {
      const node = ["--import", "tsx", "--input-type=module", "-e", program];
      const { stdout } = await promisify(execFile)(process.execPath, node, { env: { ...process.env, ...env } });
      return JSON.parse(stdout) as TryResult;
    };
    try {
      expect(await run({})).toMatchObject({ sent: false, problem: expect.stringMatching(/certificate/i) });
      expect([strict.logins(), strict.received]).toEqual([0, []]);
      expect(await run({ NODE_EXTRA_CA_CERTS: cert })).toEqual({ sent: true });
      expect(strict.received).toMatchObject([{ user: "builds", isSecure: true, to: ["team@example.org"] }]);
    } finally {
      await strict.close();
      rmSync(folder, { recursive: true });
    }
  });

  it("goes only where the settings allow, and nowhere without a server", async () => {
    const WAVESMITH_SMTP_TO = "example.org, ada@example.com";
    expect(await send("eve@example.com", { WAVESMITH_SMTP_TO })).toMatchObject({
      problem: "WAVESMITH_SMTP_TO does not allow eve@example.com",
    });
    expect(await send("Ada@example.com", { WAVESMITH_SMTP_TO })).toEqual({ sent: true });
    const acme = { name: "acme", isDefault: false };
    expect(await send("ada@example.com", {}, acme)).toMatchObject({
      problem: "the tenant acme may send mail only where WAVESMITH_SMTP_TO allows it, which is not set",
    });
    expect(await send("ada@example.com", { WAVESMITH_SMTP_TO }, acme)).toEqual({ sent: true });
    expect(await send("team@example.org", { WAVESMITH_SMTP_SERVER: "" })).toMatchObject({
      sent: false,
      problem: expect.stringContaining("WAVESMITH_SMTP_SERVER"),
    });
    expect(() => loadConfig({ WAVESMITH_SMTP_SERVER: "smtp://u:p@host" })).toThrow("smtp://HOST:PORT");
    expect(() => loadConfig({ WAVESMITH_SMTP_SERVER: "smtp://host", WAVESMITH_SMTP_USER: "u" })).toThrow("together");
  });
});
