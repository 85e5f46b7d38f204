import { WavesmithError } from "../domain/errors.ts";
import type { PreviewDomain } from "../domain/preview-domain.ts";
import type { SettingValues } from "./settings.ts";

/** The domain as it is set: without protocol or port, those of `serve` hold. */
export type GivenPreviewDomain = Pick<PreviewDomain, "name"> & Partial<PreviewDomain>;

/**
 * Reads the domain of previews. Refuses one that includes the dashboard's host, because pages of
 * previews are agents' code and could then set cookies for it.
 */
export function previewDomain(data: SettingValues): GivenPreviewDomain | null {
  const { WAVESMITH_PREVIEW_DOMAIN: given, INNGEST_SERVE_ORIGIN: serveOrigin } = data;
  if (given === undefined) return null;
  const own = serveOrigin === undefined ? null : new URL(serveOrigin);
  const hasProtocol = /^https?:\/\//.test(given);
  const url = new URL(hasProtocol ? given : `http://${given}`);
  const name = url.hostname.replace(/\.$/, "");
  if (own !== null && (own.hostname === name || own.hostname.endsWith(`.${name}`))) {
    throw new WavesmithError("usage", `WAVESMITH_PREVIEW_DOMAIN ${name} includes the host of INNGEST_SERVE_ORIGIN`, {
      remedy: "give previews a domain that is used for nothing else",
    });
  }
  if (hasProtocol) return { ...partsOf(url), name };
  if (url.port !== "") return { name, protocol: "http", port: Number(url.port) };
  return own === null ? { name } : { ...partsOf(own), name };
}

const partsOf = ({ protocol, port }: URL): Omit<PreviewDomain, "name"> => ({
  protocol: protocol === "https:" ? "https" : "http",
  port: port === "" ? null : Number(port),
});
