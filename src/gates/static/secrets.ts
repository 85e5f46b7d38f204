import type { Finding } from "../../domain/gate/finding.ts";
import { itemAt, present } from "../../domain/known.ts";
import type { Severity } from "../../domain/status.ts";
import { isFixture, isTestFile } from "../test-files.ts";
import { type FileChange, staticFinding } from "./changes.ts";

interface SecretKind {
  readonly what: string;
  /** The secret is the first group, or the whole match if there is no group. */
  readonly pattern: RegExp;
  readonly severity: Severity;
  /** The severity in tests and documents, where such values are mostly made up. */
  readonly inExamples: Severity;
}

const kind = (what: string, pattern: RegExp, severity: Severity = "critical", inExamples = severity): SecretKind => ({
  what,
  pattern,
  severity,
  inExamples,
});

const kinds: readonly SecretKind[] = [
  kind("an AWS access key id", /\b((?:AKIA|ASIA)[A-Z0-9]{16})\b/g),
  kind(
    "an AWS secret access key",
    /aws_?secret_?(?:access_?)?key["']?\s*[:=]+>?\s*["']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])/gi,
  ),
  kind("a GitHub token", /\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})/g),
  kind("a GitLab token", /\b(gl(?:pat|dt|rt|cbt|ptt|ft|oas)-[A-Za-z0-9_-]{20,})/g),
  kind("a Slack token", /\b(xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{20,})/g),
  kind("a Slack webhook", /(https:\/\/hooks\.slack\.com\/(?:services|workflows)\/T[A-Z0-9]{6,}\/[A-Za-z0-9/]{20,})/g),
  kind("a Stripe key", /\b((?:sk|rk)_live_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9]{32,})/g),
  kind("a Stripe test key", /\b((?:sk|rk)_test_[A-Za-z0-9]{16,})/g, "medium"),
  kind("a Google API key", /\b(AIza[A-Za-z0-9_-]{35})(?![A-Za-z0-9_-])/g),
  kind("a Google OAuth secret", /\b(GOCSPX-[A-Za-z0-9_-]{28})/g),
  kind("an Anthropic key", /\b(sk-ant-[A-Za-z0-9_-]{20,})/g),
  kind(
    "an OpenAI key",
    /\b(sk-(?!ant-)(?:proj-|svcacct-|admin-)?(?=[A-Za-z_-]*\d)(?=[a-z0-9_-]*[A-Z])[A-Za-z0-9_-]{20,})/g,
  ),
  kind("an npm token", /\b(npm_[A-Za-z0-9]{36})\b/g),
  kind("a PyPI token", /\b(pypi-AgE[A-Za-z0-9_-]{50,})/g),
  kind("a SendGrid key", /\b(SG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{40,})/g),
  kind("a Hugging Face token", /\b(hf_[A-Za-z0-9]{34})\b/g),
  kind("a DigitalOcean token", /\b(do[oprt]_v1_[a-f0-9]{64})\b/g),
  kind(
    "a signed token (JWT)",
    /\b(eyJ[A-Za-z0-9_-]{15,}\.eyJ[A-Za-z0-9_-]{15,}\.[A-Za-z0-9_-]{20,})/g,
    "critical",
    "medium",
  ),
];

const secretName =
  "(?:api[_-]?key|apikey|secret|(?<!(?:next|page|pagination|continuation|starting|client|request|csrf|xsrf)[_-]?)token|passw(?:or)?d|passphrase|private[_-]?key|credentials?)";
const quotedAssignment = kind(
  "a value that looks like a secret",
  new RegExp(`${secretName}[\\w-]{0,20}["']?\\s{0,5}(?::=|=>|[:=])\\s{0,5}["'\`]([^"'\`\\s]{16,200})["'\`]`, "gi"),
  "critical",
  "medium",
);
const bareAssignment = kind(
  "a value that looks like a secret",
  new RegExp(
    `^\\s*(?:export\\s+)?[\\w.]{0,60}${secretName}[\\w-]{0,20}\\s{0,5}[:=]\\s{0,5}([^\\s"'#]{16,200})\\s*$`,
    "gi",
  ),
  "critical",
  "medium",
);

const longestScanned = 20_000;
const locks = /(?:^|\/)(?:package-lock\.json|npm-shrinkwrap\.json|pnpm-lock\.yaml|yarn\.lock|[^/]+\.lock|go\.sum)$/;

/**
 * Finds secrets in added lines. A message shows the first characters and the length, never the
 * value.
 */
export function findSecrets(change: FileChange): Finding[] {
  if (change.after === null) return [];
  const inExamples = showsExamples(change.path);
  const findings = change.added.flatMap(({ line, text }) => {
    const matches = findInLine(text.slice(0, longestScanned), change.path, inExamples);
    return matches.map(({ one, value }) => {
      const message = `${change.path} contains ${one.what}: ${maskValue(value)}`;
      const severity = inExamples ? one.inExamples : one.severity;
      return staticFinding("secret", severity, message, { file: change.path, line });
    });
  });
  return [...findings, ...findPrivateKeys(change, inExamples)];
}

/** Whether a file is a test or a document, which often have made-up keys. */
function showsExamples(path: string): boolean {
  if (isTestFile(path) || isFixture(path)) return true;
  return /(?:^|\/)(?:tests?|spec)\//.test(path) || /\.(?:md|mdx|markdown|rst|adoc)$/i.test(path);
}

function findInLine(text: string, path: string, inExamples: boolean): { one: SecretKind; value: string }[] {
  const findings = kinds.flatMap((one) =>
    [...text.matchAll(one.pattern)]
      .map((match) => ({ one, value: match[1] ?? match[0] }))
      .filter(({ value }) => !isPlaceholder(value) && !(inExamples && isSequence(value))),
  );
  if (findings.length > 0 || locks.test(path)) return findings;
  const generic = isSettings(path) ? [quotedAssignment, bareAssignment] : [quotedAssignment];
  return generic.flatMap((one) =>
    [...text.matchAll(one.pattern)]
      .map((match) => ({ one, value: itemAt(match, 1) }))
      .filter(({ value }) => looksRandom(value)),
  );
}

/** Whether it is a settings file, whose values have no quotes. */
function isSettings(path: string): boolean {
  return (
    /(?:^|\/)\.env(?:\.[\w-]+)?$|\.(?:env|ini|properties|cfg|conf|toml|ya?ml)$/i.test(path) &&
    !/\.(?:example|sample|template)$/i.test(path)
  );
}

const placeholder =
  /EXAMPLE|x{4,}|\*{3,}|\.\.\.|…|<[^>]*>|\$\{|\{\{|%\(|placeholder|change[-_]?(?:me|this)|replace[-_]?(?:me|this)|your[-_]|dummy|redacted|insert[-_]|not[-_]?a?[-_]?(?:real|secret)|(?:^|[-_])(?:fake|sample|mock)[-_]/i;

function isPlaceholder(value: string): boolean {
  // The sample token on jwt.io has the subject 1234567890.
  if (/eyJzdWIiOiIxMjM0NTY3ODkw/.test(value)) return true;
  const body = value.replace(/^(?:AKIA|ASIA|gh[pousr]_|sk[-_](?:live_|test_|ant-)?|glpat-|AIza)/, "");
  return placeholder.test(value) || new Set(body).size < 5;
}

function isSequence(value: string): boolean {
  return /01234567|12345678|abcdefgh|deadbeef|(.)\1{5,}|\btest\b|[-_]test[-_]/i.test(value);
}

/**
 * Matches letters and digits in an order that no word has. Code, paths, addresses and placeholders
 * are not values.
 */
function looksRandom(value: string): boolean {
  if (isPlaceholder(value) || isSequence(value)) return false;
  if (!/[A-Za-z]/.test(value) || !/\d/.test(value)) return false;
  if (
    /^(?:https?:|[./~@$]|process\.|os\.|env[.[])|[()[\]{};,<>]|::/.test(value) ||
    /^[\w-]+(?:\.[\w-]+){2,}$/.test(value)
  )
    return false;
  if (/^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i.test(value)) return false; // a UUID is an id, not a secret
  // Words joined by dashes or underscores, such as a translation key or the name of a variable.
  if (value.split(/[-_.]/).every((part) => /^[A-Za-z]*\d{0,4}$/.test(part) && part.length <= 12)) return false;
  return entropy(value) >= 3.5;
}

/** Returns the Shannon entropy in bits per character. */
function entropy(value: string): number {
  const seen = new Map<string, number>();
  for (const character of value) seen.set(character, (seen.get(character) ?? 0) + 1);
  return [...seen.values()].reduce((sum, count) => sum - (count / value.length) * Math.log2(count / value.length), 0);
}

const keyHeader = /-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----/;

/** Finds private keys. A real key has a body; code that only mentions the header has none. */
function findPrivateKeys(change: FileChange, inExamples: boolean): Finding[] {
  const lines = present(change.after, "change.after").split(/\r?\n/);
  return change.added.flatMap(({ line, text }) => {
    const header = keyHeader.exec(text);
    if (header === null) return [];
    const body = [text.slice(header.index + header[0].length), ...lines.slice(line, line + 4)].join("\n");
    if (!/(?:^|\\n|["'`\s])(?=[^\n]*\d)[A-Za-z0-9+/=]{24,}/.test(body) || placeholder.test(body.slice(0, 200)))
      return [];
    const message = `${change.path} contains a private key`;
    return [staticFinding("secret", inExamples ? "medium" : "critical", message, { file: change.path, line })];
  });
}

function maskValue(value: string): string {
  return `${value.slice(0, 4)}… (${value.length} characters)`;
}

/** Shorter values are as likely to be ordinary text. */
const minLength = 6;

/** Finds the values of secrets that agents were given, plain or in base64. */
export function findGivenSecrets(change: FileChange, given: Readonly<Record<string, string>>): Finding[] {
  const longEnough = Object.entries(given).filter(([, value]) => value.length >= minLength);
  return longEnough.flatMap(([name, value]) => {
    const forms = [
      ...value.split("\n").filter((line) => line.length >= minLength),
      Buffer.from(value).toString("base64"),
    ];
    const match = change.added.find(({ text }) => forms.some((form) => text.includes(form)));
    if (match === undefined) return [];
    const message = `the file contains the value of the secret ${name}`;
    return [staticFinding("secret", "critical", message, { file: change.path, line: match.line })];
  });
}
