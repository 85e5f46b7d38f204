// Patterns for test cases, assertions, trivial assertions and switched-off tests, by language. They
// are estimates, which is enough to compare a file before and after a change.

export interface Skip {
  readonly pattern: RegExp;
  readonly what: string;
  /** A statement inside a test, which may be conditional. */
  readonly statement?: boolean;
  /** Also matches in comments. */
  readonly directive?: boolean;
  /** Whether it is ordinary in a new file, so that it blocks only in an existing one. */
  readonly oldFiles?: boolean;
}

export interface TestLanguage {
  readonly extensions: RegExp;
  /** Matches the start of a comment line. */
  readonly comment: RegExp;
  /** Global; the first group, if any, is the name. */
  readonly cases: RegExp;
  readonly assertions: RegExp;
  readonly trivial: RegExp;
  readonly skips: readonly Skip[];
  /** Cases generated from a table, whose number is unknown. */
  readonly tables: RegExp;
}

const cComment = /^\s*(?:\/\/|\/\*|\*(?:\s|\/|$))/;
const hashComment = /^\s*#(?!\[)/;
const never = /(?!)/g;

const javascript: TestLanguage = {
  extensions: /\.[cm]?[jt]sx?$/,
  comment: cComment,
  cases:
    /(?<![\w.$])(?:it|test|specify|xit|xtest|fit|Deno\.test|t\.test)(?:\.(?:only|skip|concurrent|sequential|each|for|fails|failing|fixme|slow)\b)*(?:\.(?:skipIf|runIf)\([^)\n]*\))?\s*(?:\(\s*(?:(?:"((?:[^"\\\n]|\\.)*)")|(?:'((?:[^'\\\n]|\\.)*)')|(?:`([^`]*)`))?|`)/g,
  assertions:
    /(?<![\w$.])(?:expect(?:\.soft|\.poll)?|expectTypeOf|assert(?:\.\w+)*|t\.(?:assert\.\w+|is|not|equal|equals|same|deepEqual|ok|notOk|true|false|truthy|falsy|throws\w*|rejects|like|regex|match|snapshot|fail))\s*\(|\.should\b/g,
  trivial:
    /(?<![\w$.])(?:expect\(\s*(true|false|null|undefined|\d+|"[^"]*"|'[^']*')\s*\)\.(?:to\.)?(?:(?:toBe|toEqual|toStrictEqual|equal|eql?)\(\s*\1\s*\)|toBeTruthy\(\)|toBeDefined\(\)|be\.(?:ok|true))|assert(?:\.ok|\.isTrue)?\(\s*(?:true|1)\s*[,)]|assert\.\w*[eE]qual\(\s*(true|false|null|\d+|"[^"]*"|'[^']*')\s*,\s*\2\s*[,)]|t\.(?:ok|true|pass|assert\.ok)\(\s*(?:true\s*)?[,)])/g,
  skips: [
    {
      pattern:
        /(?<![\w.$])(?:describe|it|test|suite|context|specify|Deno\.test|t\.test)(?:\.\w+)*\.(?:skip|ignore|fixme|fails|failing)\b(?!If)/,
      what: "is skipped",
    },
    { pattern: /(?<![\w.$])x(?:it|describe|test|context|specify)\s*\(/, what: "is skipped" },
    {
      pattern: /(?<![\w.$])(?:describe|it|test|suite|context|specify|Deno\.test)(?:\.\w+)*\.only\b/,
      what: "makes the runner skip all other tests",
    },
    { pattern: /(?<![\w.$])f(?:it|describe)\s*\(\s*["'`]/, what: "makes the runner skip all other tests" },
    {
      pattern: /(?:it|test|describe|suite)\s*\(.{0,300}\b(?:skip|todo|ignore)\s*:\s*(?:true|["'`])/,
      what: "is skipped",
    },
    {
      pattern: /(?:it|test|describe|suite)\s*\(.{0,300}\bonly\s*:\s*true/,
      what: "makes the runner skip all other tests",
    },
    { pattern: /\b(?:t|this|ctx|context)\.skip\s*\(/, what: "is skipped", statement: true },
    { pattern: /\.(?:skipIf\(\s*(?:true|1)|runIf\(\s*(?:false|0))\s*\)/, what: "is skipped" },
    {
      pattern: /\bprocess\.(?:exit\(\s*0?\s*\)|exitCode\s*=\s*0\b)/,
      what: "ends the run as if it had passed",
      statement: true,
      oldFiles: true,
    },
  ],
  tables: /\.(?:each|for)\s*[(`<]|\bfor\s*\(\s*const\b|\.forEach\s*\(/g,
};

const python: TestLanguage = {
  extensions: /\.py$/,
  comment: hashComment,
  cases: /^[ \t]*(?:async\s+)?def\s+(test\w*)\s*\(/gm,
  assertions:
    /^[ \t]*assert\b|\bself\.(?:assert\w+|fail)\s*\(|\bpytest\.(?:raises|warns|fail)\s*\(|\.assert_\w+\s*\(/gm,
  trivial:
    /^[ \t]*assert\s*(?:\(\s*(?:True|1)\s*\)|\s(?:True|1|not False|(\d+|"[^"]*"|'[^']*')\s*==\s*\1))\s*(?:,.*|#.*)?$|\bself\.assertTrue\(\s*True\s*[,)]/gm,
  skips: [
    {
      pattern:
        /pytest\.mark\.(?:skip\b|skipif\(\s*True\b|xfail\b(?!\(\s*(?!(?:reason|raises|strict|run|True)\b)[^)\s]))/,
      what: "is skipped",
    },
    { pattern: /@(?:unittest\.)?(?:skip|expectedFailure)\b(?!If|Unless)/, what: "is skipped" },
    {
      pattern: /\bpytest\.(?:skip|xfail)\s*\(|\bself\.skipTest\s*\(|\braise\s+(?:unittest\.)?SkipTest\b/,
      what: "is skipped",
      statement: true,
    },
    {
      pattern: /\b(?:os\._exit|sys\.exit|pytest\.exit)\s*\(\s*(?:0\s*)?[,)]/,
      what: "ends the run as if it had passed",
      statement: true,
      oldFiles: true,
    },
  ],
  tables: /pytest\.mark\.parametrize|\bsubTest\s*\(|@parameterized/g,
};

const go: TestLanguage = {
  extensions: /_test\.go$/,
  comment: cComment,
  cases: /^func\s+((?:Test|Fuzz|Example|Benchmark)\w*)\s*\(|\bt\.Run\(\s*"([^"]*)"/gm,
  assertions: /\bt\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\s*\(|\b(?:require|assert)\.\w+\s*\(/g,
  trivial:
    /\b(?:require|assert)\.(?:True\(\s*t\s*,\s*true\s*[,)]|Equal\(\s*t\s*,\s*(\d+|true|false|"[^"]*")\s*,\s*\1\s*[,)])/g,
  skips: [
    { pattern: /\bt\.Skip(?:f|Now)?\s*\(/, what: "is skipped", statement: true },
    { pattern: /\bos\.Exit\(\s*0\s*\)/, what: "ends the run as if it had passed", statement: true },
    { pattern: /^\/\/\s*(?:go:build|\+build)\b/, what: "is left out of the build", directive: true, oldFiles: true },
  ],
  tables: /\bt\.Run\(\s*[a-z]/g,
};

const rust: TestLanguage = {
  extensions: /\.rs$/,
  comment: cComment,
  cases: /#\[(?:\w+::)*(?:test|rstest)\b[^\]]*\](?:\s*#\[[^\]]*\])*\s*(?:pub\s+)?(?:async\s+)?fn\s+(\w+)/g,
  assertions: /\b(?:debug_)?assert(?:_eq|_ne|_matches)?!\s*[([{]|\bpanic!\s*\(|#\[should_panic/g,
  trivial: /\bassert!\s*\(\s*true\s*[,)]|\bassert_eq!\s*\(\s*(\d+|true|false)\s*,\s*\1\s*[,)]/g,
  skips: [{ pattern: /#\[ignore\b/, what: "is ignored" }],
  tables: /#\[case\b|#\[rstest/g,
};

const jvm: TestLanguage = {
  extensions: /\.(?:java|kts?|scala|groovy|cs)$/,
  comment: cComment,
  cases: /@(?:Test|ParameterizedTest|RepeatedTest|TestFactory)\b|\[(?:Fact|Theory|Test|TestMethod|TestCase)\b/g,
  assertions: /\b(?:assert\w*|Assert(?:ions)?\.\w+|verify|fail|expect\w*)\s*[(<{]|\.Should\(\)/g,
  trivial: /\b(?:assertTrue|Assert\.(?:True|IsTrue)|assert)\s*\(\s*true\s*[,)]/g,
  skips: [{ pattern: /@(?:Disabled|Ignore)\b|\[Ignore\b|\bSkip\s*=\s*"/, what: "is ignored" }],
  tables: /@ParameterizedTest|\[Theory|\[TestCase/g,
};

const ruby: TestLanguage = {
  extensions: /\.rb$/,
  comment: hashComment,
  cases: /^\s*(?:it|specify|scenario|test|should)\s*\(?\s*["']([^"']*)["']|^\s*def\s+(test_\w+)/gm,
  assertions: /\bexpect\s*[({]|\b(?:assert|refute)\w*\b|\bis_expected\b|\.(?:must|wont)_\w+/g,
  trivial: /\bexpect\(\s*true\s*\)\.to|\bassert\s*\(?\s*true\b/g,
  skips: [
    { pattern: /^\s*x(?:it|describe|context|specify)\b|\bskip:\s*(?:true|["'])/, what: "is skipped" },
    { pattern: /^\s*f(?:it|describe|context)\s+["']|\bfocus:\s*true/, what: "makes the runner skip all other tests" },
    { pattern: /^\s*(?:skip|pending)\b/, what: "is skipped", statement: true },
  ],
  tables: never,
};

const php: TestLanguage = {
  extensions: /\.php$/,
  comment: /^\s*(?:\/\/|#(?!\[)|\/\*|\*(?:\s|\/|$))/,
  cases: /\bfunction\s+(test\w*)\s*\(|(?:@test\b|#\[Test\])|^\s*(?:it|test)\(\s*["']([^"']*)/gm,
  assertions: /(?:\$this->|self::|static::)(?:assert|expect)\w+\s*\(|\bexpect\s*\(/g,
  trivial: /(?:\$this->|self::|static::)assertTrue\(\s*true\s*[,)]/g,
  skips: [{ pattern: /->markTest(?:Skipped|Incomplete)\s*\(/, what: "is skipped", statement: true }],
  tables: /@dataProvider|#\[DataProvider/g,
};

const bats: TestLanguage = {
  extensions: /\.bats$/,
  comment: hashComment,
  cases: /^\s*@test\s+["']([^"']*)["']/gm,
  assertions: /^\s*(?:\[\[? |assert\w*|refute\w*|test )/gm,
  trivial: /^\s*(?:true|\[ 1 -eq 1 \])\s*$/gm,
  skips: [{ pattern: /^\s*skip\b/, what: "is skipped", statement: true }],
  tables: never,
};

const languages: readonly TestLanguage[] = [javascript, python, go, rust, jvm, ruby, php, bats];

/** Returns the language of a test file; null when its tests cannot be counted. */
export function testLanguage(path: string): TestLanguage | null {
  return languages.find((language) => language.extensions.test(path)) ?? null;
}
