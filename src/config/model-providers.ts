import { resolve } from "node:path";
import { present } from "../domain/known.ts";
import type { ModelLimits, ProviderName } from "../domain/models.ts";
import type { SettingValues } from "./settings.ts";
import { durationMsOf } from "./units.ts";

/** A model provider and its credentials. */
interface ModelProviderSettings {
  readonly name: ProviderName;
  /** Paths such as `/v1/messages` are appended. */
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Whether it is a subscription, for which the price of a call is unknown. */
  readonly isSubscription?: boolean;
  readonly limits?: ModelLimits;
}

export interface ModelSettings {
  readonly providers: readonly ModelProviderSettings[];
  readonly pricesFile: string | null;
  readonly pricesUrl: string;
  readonly cassette: { readonly mode: "record" | "replay"; readonly folder: string } | null;
  readonly patienceMs: number;
}

const withoutSlash = (url: string): string => url.replace(/\/+$/, "");
/** Drops a trailing `/v1`, because the paths begin with it. */
const withoutVersion = (url: string): string => withoutSlash(url).replace(/\/v1$/, "");

export function modelSettings(data: SettingValues): ModelSettings {
  const [, mode, folder] = /^(record|replay):(.+)$/.exec(data.WAVESMITH_CASSETTE ?? "") ?? [];
  return {
    providers: [
      ...anthropicProvider(data),
      ...openaiProvider(data),
      ...googleProvider(data),
      ...compatibleProviders(data),
    ],
    patienceMs: present(durationMsOf(data.WAVESMITH_MODEL_PATIENCE), "WAVESMITH_MODEL_PATIENCE"),
    pricesUrl: data.WAVESMITH_PRICES_URL,
    pricesFile: data.WAVESMITH_PRICES === undefined ? null : resolve(data.WAVESMITH_PRICES),
    cassette:
      mode === undefined ? null : { mode: mode as "record" | "replay", folder: resolve(present(folder, "the folder")) },
  };
}

function anthropicProvider(data: SettingValues): ModelProviderSettings[] {
  const { ANTHROPIC_API_KEY: key, CLAUDE_CODE_OAUTH_TOKEN: token } = data;
  if (key === undefined && token === undefined) return [];
  const baseUrl = withoutVersion(data.ANTHROPIC_BASE_URL ?? "https://api.anthropic.com");
  // A subscription signs in with a token in another header.
  const signIn =
    key === undefined
      ? { authorization: `Bearer ${token}`, "anthropic-beta": "oauth-2025-04-20" }
      : { "x-api-key": key };
  return [
    {
      name: "anthropic",
      baseUrl,
      headers: { "anthropic-version": "2023-06-01", ...signIn } as Record<string, string>,
      isSubscription: key === undefined,
    },
  ];
}

function openaiProvider(data: SettingValues): ModelProviderSettings[] {
  const { OPENAI_API_KEY: key } = data;
  if (key === undefined) return [];
  const baseUrl = withoutVersion(data.OPENAI_BASE_URL ?? "https://api.openai.com");
  return [{ name: "openai", baseUrl, headers: { authorization: `Bearer ${key}` } }];
}

function googleProvider(data: SettingValues): ModelProviderSettings[] {
  const { GEMINI_API_KEY: key } = data;
  if (key === undefined) return [];
  const address = withoutSlash(data.GEMINI_BASE_URL ?? "https://generativelanguage.googleapis.com");
  return [{ name: "google", baseUrl: address.replace(/\/v1(beta)?$/, ""), headers: { "x-goog-api-key": key } }];
}

/** The nameless server, and those with names. */
function compatibleProviders(data: SettingValues): ModelProviderSettings[] {
  const keys = namedValues(data.WAVESMITH_COMPATIBLE_KEYS);
  const limits = namedValues(data.WAVESMITH_COMPATIBLE_LIMITS);
  const server = (name: ProviderName, url: string, key: string | undefined): ModelProviderSettings => {
    const [contextTokens = null, outputTokens = null] =
      limits
        .get(name.replace(/^compatible-/, ""))
        ?.split("/")
        .map(Number) ?? [];
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    return { name, baseUrl: withPath(url), headers, limits: { contextTokens, outputTokens } };
  };
  const { WAVESMITH_COMPATIBLE_URL: url, WAVESMITH_COMPATIBLE_KEY: key } = data;
  return [
    ...(url === undefined ? [] : [server("compatible", url, key)]),
    ...[...namedValues(data.WAVESMITH_COMPATIBLE_SERVERS)].map(([name, address]) =>
      server(`compatible-${name}`, address, keys.get(name)),
    ),
  ];
}

/** Keeps a URL as it is written; one without a path gets the usual `/v1`. */
const withPath = (url: string): string =>
  new URL(url).pathname === "/" ? `${withoutSlash(url)}/v1` : withoutSlash(url);

/** Parses `name=value,name=value`. */
export const namedValues = (text = ""): Map<string, string> =>
  new Map(
    text.split(",").flatMap((entry): [string, string][] => {
      const at = entry.indexOf("=");
      return at < 0 ? [] : [[entry.slice(0, at), entry.slice(at + 1)]];
    }),
  );
