import { WavesmithError } from "../domain/errors.ts";
import type { SettingValues } from "./settings.ts";

/** An Inngest server, and the keys that we and it use. */
export interface InngestSettings {
  readonly kind: "inngest";
  /** Whether it is a dev server: it signs nothing, so only this machine may reach the functions. */
  readonly isDev: boolean;
  /** Null for Inngest's cloud. */
  readonly baseUrl: string | null;
  readonly eventKey: string;
  /** Null only with a dev server. */
  readonly signingKey: string | null;
  readonly signingKeyFallback: string | null;
  readonly environment: string | null;
  /** Where Inngest reaches us; null for the address we listen on. */
  readonly serveOrigin: string | null;
}

export type EngineSettings =
  | {
      readonly kind: "embedded";
      /** Where others reach us; null: the address we listen on. */
      readonly serveOrigin: string | null;
    }
  | InngestSettings;

const devServerUrl = "http://127.0.0.1:8288";

/**
 * Chooses the engine, with everything an Inngest server needs. Never accepts a server without keys
 * unless it is a dev server.
 */
export function engineSettings(data: SettingValues): EngineSettings {
  const { INNGEST_DEV: dev, INNGEST_SIGNING_KEY: signingKey, INNGEST_EVENT_KEY: eventKey } = data;
  const devOff = dev !== undefined && /^(0|false)$/i.test(dev);
  const hasKeys = signingKey !== undefined && eventKey !== undefined;
  const kind = data.WAVESMITH_ENGINE ?? ((dev !== undefined && !devOff) || hasKeys ? "inngest" : "embedded");
  const serveOrigin = data.INNGEST_SERVE_ORIGIN?.replace(/\/+$/, "") ?? null;
  if (kind === "embedded") return { kind, serveOrigin };
  const common = {
    kind,
    signingKeyFallback: data.INNGEST_SIGNING_KEY_FALLBACK ?? null,
    environment: data.INNGEST_ENV ?? null,
    serveOrigin,
  };
  const keyless = signingKey === undefined && eventKey === undefined && data.INNGEST_BASE_URL === undefined;
  if (!devOff && (dev !== undefined || keyless)) {
    const url = dev !== undefined && /^https?:/i.test(dev) ? dev : (data.INNGEST_BASE_URL ?? devServerUrl);
    return { ...common, isDev: true, baseUrl: url, eventKey: eventKey ?? "dev", signingKey: signingKey ?? null };
  }
  if (!hasKeys) {
    const lacking = [
      ...(signingKey === undefined ? ["INNGEST_SIGNING_KEY"] : []),
      ...(eventKey === undefined ? ["INNGEST_EVENT_KEY"] : []),
    ];
    throw new WavesmithError("usage", `an Inngest server that is not a dev server needs ${lacking.join(" and ")}`, {
      remedy: "set both keys, or INNGEST_DEV=1 for a dev server on this machine",
    });
  }
  return { ...common, isDev: false, baseUrl: data.INNGEST_BASE_URL ?? null, eventKey, signingKey };
}
