import { WavesmithError } from "../domain/errors.ts";
import type { MailServer } from "../domain/mail-server.ts";
import type { SettingValues } from "./settings.ts";

/** Reads the mail server; null if none is set. A user needs a password and the other way round. */
export function mailServer(data: SettingValues): MailServer | null {
  const { WAVESMITH_SMTP_SERVER: server, WAVESMITH_SMTP_USER: user, WAVESMITH_SMTP_PASSWORD: password } = data;
  if (server === undefined) return null;
  if ((user === undefined) !== (password === undefined))
    throw new WavesmithError("usage", "WAVESMITH_SMTP_USER and WAVESMITH_SMTP_PASSWORD belong together", {
      remedy: "set both, or neither for a server that needs no password",
    });
  const { protocol, hostname, port } = new URL(server);
  const isTls = protocol === "smtps:";
  const allowed = data.WAVESMITH_SMTP_TO?.split(",").flatMap((part) => part.trim() || []);
  return {
    protocol: isTls ? "smtps" : "smtp",
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? (isTls ? 465 : 587) : Number(port),
    user: user ?? null,
    password: password ?? null,
    from: data.WAVESMITH_SMTP_FROM ?? (user?.includes("@") === true ? user : `wavesmith@${hostname}`),
    allowed: allowed ?? null,
  };
}
