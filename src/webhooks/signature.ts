import { createHmac, timingSafeEqual } from "node:crypto";

/** Whether this can be a signature: a body that has none need not be read. */
export const looksSigned = (signature: string | undefined): boolean => signatureForm.test(signature ?? "");

const signatureForm = /^sha256=([0-9a-f]{64})$/;

/**
 * Whether one of these secrets signed the body: `sha256=HEX` of its HMAC, as GitHub sends it. Every
 * secret is tried, in constant time, so that secrets can be rotated.
 */
export function isSignedBy(secrets: readonly string[], body: Uint8Array, signature: string | undefined): boolean {
  const hex = signatureForm.exec(signature ?? "")?.[1];
  if (hex === undefined) return false;
  const given = Buffer.from(hex, "hex");
  let matches = false;
  for (const secret of secrets) {
    const expected = createHmac("sha256", secret).update(body).digest();
    if (timingSafeEqual(given, expected)) matches = true;
  }
  return matches;
}
