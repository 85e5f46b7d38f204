// Conventions by language. Support files (fixtures, mocks, set-up) are not test files.

const javascript = /\.[cm]?[jt]sx?$/;
const namedTests: readonly RegExp[] = [
  /[._-](?:test|tests|spec|e2e|cy)\.[cm]?[jt]sx?$/, // a.test.ts, a_test.ts (Deno), a.spec.js, a.cy.ts
  /(?:^|\/)(?:tests?|test-[^/]+)\.[cm]?[jt]sx?$/, // test.js, test-a.mjs
  /(?:^|\/)test_[^/]*\.py$/,
  /_test\.(?:py|go|rb|exs|dart|cc|cpp|cxx|c)$/,
  /(?:^|\/)tests\.py$/, // Django
  /(?:^|\/)test_[^/]*\.(?:rb|c|cc|cpp|sh|bash)$/,
  /_spec\.rb$/,
  /_unittest\.(?:cc|cpp)$/,
  /(?:^|\/)(?:[A-Z]\w*)?(?:Tests?|TestCase|IT|Spec)\.(?:java|kt|kts|scala|groovy|cs|swift|php)$/,
  /\.bats$/,
];
const supporting =
  /(?:^|\/)(?:fixtures?|__fixtures__|testdata|test-data|support|helpers?|mocks?|__mocks__|utils?|common|setup|node_modules|vendor)\//;
const testFolder = /(?:^|\/)(?:__tests__|tests?|spec|e2e)\//;

/** Whether a path is a test file by the usual conventions of its language. */
export function isTestFile(path: string): boolean {
  if (/(?:^|\/)node_modules\//.test(path)) return false;
  if (namedTests.some((pattern) => pattern.test(path))) return true;
  if (supporting.test(path)) return false;
  if (/(?:^|\/)tests\/[^/]+\.rs$/.test(path)) return true;
  return testFolder.test(path) && javascript.test(path) && !/\.d\.[cm]?ts$/.test(path) && !/\.config\./.test(path);
}

/** Whether a path holds test data, where broken or secret-looking text is often intended. */
export function isFixture(path: string): boolean {
  return /(?:^|\/)(?:fixtures?|__fixtures__|testdata|test-data|test_data|__snapshots__|snapshots|goldens?|corpus|cassettes)\//i.test(
    path,
  );
}
