import { z } from "zod";
import { usedRules, usedScripts } from "./used.ts";

// The kinds of gate files, and the parts of each that decide what a gate runs. Tasks may change the
// other parts: a new dependency in package.json or a new target in a Makefile changes no gate.

export interface GateFileKind {
  readonly matches: (path: string) => boolean;
  /** Its name, for people. */
  readonly what: string;
  /** Whether `mayChangeTests` permits the change. */
  readonly aboutTests: boolean;
  /** Returns the deciding part of the text; empty if there is none. Absent: the whole text. */
  readonly parts?: (text: string, commands: readonly string[]) => string;
}

const matchingPath = (pattern: RegExp) => (path: string) => pattern.test(path);
const linesWith = (pattern: RegExp) => (text: string) =>
  text
    .split(/\r?\n/)
    .filter((line) => pattern.test(line.slice(0, 2_000)))
    .join("\n");

const manifestSchema = z.record(z.string(), z.unknown());
const runnerKeys = ["jest", "mocha", "ava", "vitest", "c8", "nyc", "tap", "jasmine", "cypress", "babel", "wireit"];
const runnerNames =
  /^(?:vitest|@vitest\/.*|vite|jest|@jest\/.*|ts-jest|babel-jest|mocha|ava|tap|tape|jasmine|uvu|chai|expect|assert|sinon|@playwright\/test|playwright|cypress|c8|nyc|tsx|ts-node|npm-run-all|cross-env)$/;
const placeholder = /no test specified/i;

/** Returns the scripts of a package.json; none when it is unreadable. */
export function scriptsOf(text: string | null): Record<string, string> {
  const scripts = objectOf(readManifest(text).scripts);
  return Object.fromEntries(
    Object.entries(scripts).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
}

function readManifest(text: string | null): Record<string, unknown> {
  if (text === null) return {};
  try {
    return manifestSchema.safeParse(JSON.parse(text)).data ?? {};
  } catch {
    return {}; // npm cannot read it either, and the syntax check reports it
  }
}

const objectOf = (value: unknown): Record<string, unknown> => manifestSchema.safeParse(value).data ?? {};

function packageParts(text: string, commands: readonly string[]): string {
  const manifest = readManifest(text);
  const scripts = scriptsOf(text);
  const usedNames = usedScripts(commands, scripts).filter(
    (name) => Object.hasOwn(scripts, name) && !placeholder.test(scripts[name] ?? ""),
  );
  const parts: [string, unknown][] = usedNames.map((name) => [`scripts.${name}`, scripts[name]]);
  for (const key of runnerKeys) if (manifest[key] !== undefined) parts.push([key, manifest[key]]);
  parts.push(...replacedRunners(manifest));
  return parts.map((part) => JSON.stringify(part)).join("\n");
}

/** Finds test runners that do not come from a registry but, for example, from a folder. */
function replacedRunners(manifest: Record<string, unknown>): [string, unknown][] {
  const pnpm = objectOf(manifest.pnpm);
  const dependencies = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"].flatMap((key) =>
    Object.entries(objectOf(manifest[key])).filter(
      ([name, version]) => runnerNames.test(name) && !/^[\^~<>=\d.*x|\s\w-]*$/.test(String(version)),
    ),
  );
  const overrides = [manifest.overrides, manifest.resolutions, pnpm.overrides, pnpm.patchedDependencies].flatMap(
    (value) => Object.entries(objectOf(value)).filter(([name]) => runnerNames.test(name.replace(/(.)@.*$/, "$1"))),
  );
  return [...dependencies, ...overrides];
}

/** Returns the sections of a TOML or INI file whose header matches, with their lines. */
const sections = (header: RegExp, alone: RegExp | null) => (text: string) => {
  let isInside = false;
  const lines = text.split(/\r?\n/).filter((line) => {
    const shortLine = line.slice(0, 2_000);
    if (/^\s*\[/.test(shortLine)) isInside = header.test(shortLine);
    return shortLine.trim() !== "" && (isInside || alone?.test(shortLine) === true);
  });
  return lines.join("\n");
};

const script = "[cm]?[jt]sx?";

export const gateFileKinds: readonly GateFileKind[] = [
  {
    matches: matchingPath(/(?:^|\/)package\.json$/),
    what: "which scripts and which test runner npm runs",
    aboutTests: false,
    parts: packageParts,
  },
  {
    matches: matchingPath(
      /(?:^|\/)(?:\.npmrc|\.yarnrc|\.yarnrc\.yml|\.pnpmfile\.[cm]?js|bunfig\.toml|node\.config\.json)$/,
    ),
    what: "how the package manager runs scripts",
    aboutTests: false,
  },
  {
    matches: matchingPath(/(?:^|\/)pnpm-workspace\.ya?ml$/),
    what: "how pnpm runs scripts",
    aboutTests: false,
    parts: linesWith(/script-?shell|node-?options|shell-?emulator|pnpmfile/i),
  },
  {
    matches: matchingPath(/(?:^|\/)\.env[^/]*$/),
    what: "options of the interpreter",
    aboutTests: false,
    parts: linesWith(
      /^\s*(?:export\s+)?(?:NODE_OPTIONS|PYTHON\w*|PYTEST_\w+|GOFLAGS|RUST\w*|BASH_ENV|ENV|PATH|VITEST\w*)\s*=/,
    ),
  },
  {
    matches: matchingPath(
      new RegExp(
        `(?:^|/)(?:(?:vitest|jest|ava|playwright|cypress|karma|nyc|c8|wdio|jasmine|babel|mocha|tap)\\.(?:config|workspace|projects|conf)\\.(?:${script}|json)|\\.(?:mocharc|c8rc|nycrc|taprc|babelrc|rspec)(?:\\.[a-z]+)?|cypress\\.json|jasmine\\.json|mocha\\.opts)$`,
      ),
    ),
    what: "which tests the runner runs and how",
    aboutTests: true,
  },
  {
    matches: matchingPath(new RegExp(`(?:^|/)vite\\.config\\.${script}$`)),
    what: "which tests vitest runs and how",
    aboutTests: true,
    parts: (text) => (/\btest\s*:|vitest/.test(text) ? text : ""),
  },
  {
    matches: matchingPath(
      new RegExp(
        `(?:^|/)(?:(?:vitest|jest|mocha|ava|tests?)[.-](?:setup|global-setup|preset|environment)\\.${script}|setup-?tests?\\.${script}|(?:rails|spec|test)_helper\\.(?:rb|exs))$`,
        "i",
      ),
    ),
    what: "code that runs before every test",
    aboutTests: true,
  },
  {
    matches: matchingPath(/(?:^|\/)(?:conftest\.py|\.?pytest\.(?:ini|toml)|noxfile\.py)$/),
    what: "which tests pytest runs and how",
    aboutTests: true,
  },
  {
    matches: matchingPath(/(?:^|\/)(?:sitecustomize|usercustomize)\.py$|\.pth$/),
    what: "code that Python runs first",
    aboutTests: false,
  },
  {
    matches: matchingPath(/^(?:pytest|_pytest|unittest|pluggy|nose|tox|coverage)(?:\.py$|\/)/),
    what: "a module that replaces the test runner's",
    aboutTests: false,
  },
  {
    matches: matchingPath(/(?:^|\/)(?:pyproject\.toml|setup\.cfg|tox\.ini)$/),
    what: "which tests the runner runs and how",
    aboutTests: true,
    parts: sections(/^\s*\[+\s*(?:tool[.:])?(?:pytest|tox|nox|coverage|testenv)|pytest11/, null),
  },
  { matches: matchingPath(/(?:^|\/)go\.work$/), what: "which modules go builds", aboutTests: false },
  {
    matches: matchingPath(/(?:^|\/)go\.mod$/),
    what: "which packages go takes from elsewhere",
    aboutTests: false,
    parts: linesWith(/=>|^\s*(?:replace|toolchain)\b/),
  },
  {
    matches: matchingPath(/(?:^|\/)Cargo\.toml$/),
    what: "which tests cargo runs",
    aboutTests: false,
    parts: sections(/^\s*\[+\s*(?:test|profile\.test|patch|replace)\b/, /^\s*(?:autotests|test|doctest|harness)\s*=/),
  },
  {
    matches: matchingPath(/(?:^|\/)(?:\.cargo\/config(?:\.toml)?|\.config\/nextest\.toml)$/),
    what: "how cargo runs tests",
    aboutTests: false,
  },
  {
    matches: matchingPath(/(?:^|\/)(?:GNUmakefile|[Mm]akefile)$|\.mk$/),
    what: "targets of make that a gate uses",
    aboutTests: false,
    parts: (text, commands) => usedRules(text, commands).join("\n"),
  },
  {
    matches: matchingPath(/(?:^|\/)(?:[Jj]ustfile|Taskfile\.ya?ml)$/),
    what: "recipes that a gate may use",
    aboutTests: false,
    parts: (text, commands) => (commands.some((command) => /\b(?:just|task)\b/.test(command)) ? text : ""),
  },
  {
    matches: matchingPath(/(?:^|\/)deno\.jsonc?$/),
    what: "tasks and tests of deno",
    aboutTests: false,
    parts: (text) => (/"(?:tasks|test)"\s*:/.test(text) ? text : ""),
  },
  {
    matches: matchingPath(
      /(?:^|\/)(?:gradlew|mvnw|\.mvn\/.*|gradle\/wrapper\/.*|phpunit\.xml(?:\.dist)?|CTestCustom\.cmake)$/,
    ),
    what: "how the build tool runs tests",
    aboutTests: false,
  },
  {
    matches: matchingPath(/(?:^|\/)(?:pom\.xml|build\.gradle(?:\.kts)?|gradle\.properties)$/),
    what: "how the build tool runs tests",
    aboutTests: false,
    parts: linesWith(
      /skipTests|maven\.test|testFailureIgnore|ignoreFailures|surefire|failsafe|useJUnit|excludeTest|filter\s*\{/i,
    ),
  },
  {
    matches: matchingPath(/(?:^|\/)CMakeLists\.txt$/),
    what: "which tests ctest runs",
    aboutTests: true,
    parts: linesWith(/add_test|enable_testing|set_tests_properties|WILL_FAIL|gtest_discover/i),
  },
  {
    matches: matchingPath(/(?:^|\/)composer\.json$/),
    what: "which scripts composer runs",
    aboutTests: false,
    parts: (text) => JSON.stringify(readManifest(text).scripts ?? ""),
  },
];
