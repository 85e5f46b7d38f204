import type { OpenIdProvider, Scope } from "../domain/access.ts";
import { WavesmithError } from "../domain/errors.ts";
import type { SettingValues } from "./settings.ts";

/** Reads the provider; null if none is set. Fails with `usage` where a part is missing. */
export function openIdProvider(data: SettingValues): OpenIdProvider | null {
  const {
    WAVESMITH_OIDC_ISSUER: issuer,
    WAVESMITH_OIDC_CLIENT_ID: clientId,
    WAVESMITH_OIDC_PEOPLE: people,
    WAVESMITH_OIDC_CLIENT_SECRET: clientSecret = null,
  } = data;
  if (issuer === undefined && clientId === undefined && people === undefined && clientSecret === null) return null;
  if (issuer === undefined || clientId === undefined || people === undefined)
    throw new WavesmithError(
      "usage",
      "WAVESMITH_OIDC_ISSUER, WAVESMITH_OIDC_CLIENT_ID and WAVESMITH_OIDC_PEOPLE belong together",
      { remedy: "set all three, or none" },
    );
  const rights = people.split(",").map((part) => {
    const [who = "", right = ""] = part.trim().split("=");
    const [scope, tenant = null] = right.split("/").reverse();
    return { who: who.toLowerCase(), scope: scope as Scope, tenant }; // the schema has checked it
  });
  return { issuer, clientId, clientSecret, rights };
}
