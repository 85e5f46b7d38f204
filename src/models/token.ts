import { createHmac, timingSafeEqual } from "node:crypto";
import type { ModelOwnerKind } from "./port.ts";

export interface TokenClaims {
  readonly kind: ModelOwnerKind;
  readonly id: string;
  readonly fence: number;
}

/**
 * Derives a token from its owner and fence, so that a restarted job gets the same one and nothing
 * is stored.
 */
export function tokenOf(secret: string, { kind, id, fence }: TokenClaims): string {
  const claims = `${kind}.${id}.${fence}`;
  return `wst_${claims}.${macOf(secret, claims)}`;
}

/**
 * Returns the claims of a token that we made; null for any other. The caller checks that its owner
 * is live.
 */
export function readToken(secret: string, token: string): TokenClaims | null {
  const match = /^wst_((attempt|gate|session)\.([\w-]+)\.(\d{1,9}))\.([\w-]+)$/.exec(token);
  if (match === null) return null;
  const [, claims = "", kind, id = "", fence, mac = ""] = match;
  const expectedMac = Buffer.from(macOf(secret, claims));
  const givenMac = Buffer.from(mac);
  if (expectedMac.length !== givenMac.length || !timingSafeEqual(expectedMac, givenMac)) return null;
  return { kind: kind as ModelOwnerKind, id, fence: Number(fence) };
}

const macOf = (secret: string, claims: string): string =>
  createHmac("sha256", secret).update(`wavesmith model token ${claims}`).digest("base64url");
