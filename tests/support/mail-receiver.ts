import type { AddressInfo } from "node:net";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";

export interface ReceivedMail {
  readonly from: string;
  readonly to: readonly string[];
  readonly user: string | null;
  readonly isSecure: boolean;
  /** Headers and bodies, as they were sent. */
  readonly text: string;
}

export interface MailReceiver {
  readonly port: number;
  readonly received: ReceivedMail[];
  /** How many times somebody tried to log in. */
  logins(): number;
  close(): Promise<void>;
}

/**
 * A real SMTP server that keeps the mails it receives. It knows one user, and has no mailbox
 * `nobody`.
 */
export async function createMailReceiver(options: SMTPServerOptions = {}): Promise<MailReceiver> {
  const received: ReceivedMail[] = [];
  let logins = 0;
  const server = new SMTPServer({
    authOptional: true,
    onAuth(auth, _session, done) {
      logins += 1;
      if (auth.username === "builds" && auth.password === "s3cret-password") done(null, { user: auth.username });
      else done(Object.assign(new Error("Invalid login"), { responseCode: 535 }));
    },
    onRcptTo({ address }, _session, done) {
      if (address.startsWith("nobody@")) done(Object.assign(new Error("no such mailbox"), { responseCode: 550 }));
      else done();
    },
    onData(stream, { envelope, user, secure: isSecure }, done) {
      let text = "";
      stream.on("data", (part: Buffer) => {
        text += part.toString();
      });
      stream.on("end", () => {
        const { mailFrom, rcptTo } = envelope;
        const from = mailFrom === false ? "" : mailFrom.address;
        received.push({ from, to: rcptTo.map(({ address }) => address), user: user ?? null, isSecure, text });
        done();
      });
    },
    ...options,
  });
  server.on("error", () => undefined); // a client that hangs up in the middle
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.server.address() as AddressInfo;
  return { port, received, logins: () => logins, close: () => new Promise((resolve) => server.close(() => resolve())) };
}
