import { type SettingName, type SettingValues, settings } from "./settings.ts";
import { keyOfSetting } from "./settings-file.ts";

/** A setting as people see it. */
export interface ShownSetting {
  readonly name: SettingName;
  /** Its key in the settings file; null: it has none. */
  readonly key: string | null;
  /** Null: it has none, or is a secret. */
  readonly value: string | null;
  readonly isSecret: boolean;
  readonly isSet: boolean;
  readonly source: "environment" | "file" | "default";
  /** Its line in the file. */
  readonly line: number | null;
}

const secret = /(_KEY|_KEYS|_KEY_FALLBACK|_SECRET|_TOKEN|_PASSWORD|_HEADERS)$|^DATABASE_URL$/;

/** Shows where each setting came from. A variable of the environment wins over the file. */
export function showSettings(
  values: SettingValues,
  of: {
    readonly present: Readonly<Record<string, string | undefined>>;
    readonly lines: Readonly<Partial<Record<SettingName, number>>>;
  },
): ShownSetting[] {
  return settings.map(({ name }) => {
    const line = of.lines[name] ?? null;
    const source = of.present[name] !== undefined ? "environment" : line !== null ? "file" : "default";
    const value = values[name];
    const isSecret = secret.test(name);
    return {
      ...{ name, key: keyOfSetting.get(name) ?? null, isSecret, isSet: value !== undefined && value !== "" },
      ...{ value: isSecret || value === undefined ? null : withoutPassword(value), source },
      line: source === "file" ? line : null,
    };
  });
}

/** A URL may name a user and a password. */
const withoutPassword = (value: string): string => value.replace(/(:\/\/)[^/@\s]*@/g, "$1…@");
