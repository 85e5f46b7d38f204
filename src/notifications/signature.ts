import { createHmac } from "node:crypto";

/**
 * Signs a body as https://www.standardwebhooks.com specifies, so that its libraries can verify it.
 * A key that starts with `whsec_` is base64; any other key is used as text.
 */
export function signatureOf(key: string, { id, seconds, body }: { id: string; seconds: number; body: string }): string {
  const bytes = key.startsWith("whsec_") ? Buffer.from(key.slice("whsec_".length), "base64") : Buffer.from(key, "utf8");
  return `v1,${createHmac("sha256", bytes).update(`${id}.${seconds}.${body}`).digest("base64")}`;
}
