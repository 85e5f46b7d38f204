import { settings } from "../src/config/settings.ts";
import { keyOfSetting } from "../src/config/settings-file.ts";

const groups: readonly (readonly [title: string, names: RegExp])[] = [
  ["Data and servers", /^(WAVESMITH_(DATA|DATABASE_WAIT|SERVER|KEY|ENGINE|LOG|PLAN_HOSTS)|DATABASE_URL)$/],
  ["Sandboxes and previews", /^WAVESMITH_(SANDBOX|DOCKER|PREVIEW)/],
  ["Retention", /^WAVESMITH_(SNAPSHOT|RETENTION)/],
  ["Signing in", /^WAVESMITH_OIDC/],
  ["Limits", /^WAVESMITH_(API_RATE|TASKS|TENANT)/],
  ["Agents and models", /^WAVESMITH_(MODEL|AGENT|ROLES|PRICES|COMPATIBLE|CASSETTE)|^(ANTHROPIC|OPENAI|GEMINI|CLAUDE)_/],
  ["GitHub and CI", /^WAVESMITH_(GITHUB|CI)_/],
  ["Events and messages", /^WAVESMITH_(EVENT|WEBHOOK|NOTIFY|SMTP)_/],
  ["Inngest", /^INNGEST_/],
  ["Traces", /^OTEL_/],
];

/** Marks where the tables of docs/settings.md begin; `npm run settings` keeps the text above it. */
export const startOfTables = "<!-- Below: written by `npm run settings` from src/config/settings.ts. -->";

/**
 * Returns every setting as tables in Markdown.
 * @throws Error if a setting belongs to no group, or to two.
 */
export const settingsTables = (): string => {
  const groupOf = new Map(
    settings.map(({ name }) => {
      const [first, ...others] = groups.filter(([, names]) => names.test(name));
      if (first === undefined || others.length > 0)
        throw new Error(`${name} belongs to ${first ? "two groups" : "no group"}`);
      return [name, first[0]];
    }),
  );
  return groups
    .map(([title]) => {
      const rows = settings.filter(({ name }) => groupOf.get(name) === title).map(rowOfSetting);
      return [`### ${title}`, "", "| setting | in the file | default | meaning |", "|---|---|---|---|", ...rows].join(
        "\n",
      );
    })
    .join("\n\n")
    .concat("\n");
};

const rowOfSetting = ({ name, default: value, describes }: (typeof settings)[number]): string => {
  const key = keyOfSetting.get(name);
  return `| \`${name}\` | ${key === undefined ? "" : `\`${key}\``} | ${value === "" ? "none" : `\`${value}\``} | ${describes} |`;
};

/** Returns the text of .env.example. */
export const exampleEnvironment = (): string =>
  [
    "# Settings of Wavesmith. It reads the environment, not this file: load a copy with `set -a; . ./.env; set +a`.",
    ...settings.map(({ name, default: value, describes }) => `# ${describes}\n# ${name}=${value}`),
  ]
    .join("\n\n")
    .concat("\n");
