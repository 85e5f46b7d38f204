import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { globsMayOverlap, literalGlob, matchesAny } from "../../src/domain/write-globs.ts";

const seed = Number(process.env.WAVESMITH_TEST_SEED ?? Date.now() % 2 ** 31);

describe("overlap of globs", () => {
  it.each([
    ["src/**", "src/index.ts", true],
    ["src/**", "src", true],
    ["src/*", "src/a/b.ts", false],
    ["src/*.ts", "src/*.js", false],
    ["src/a*.ts", "src/*b.ts", true],
    ["**/*.md", "docs/guide.md", true],
    ["**/*.md", "docs/*.ts", false],
    ["{src,docs}/**", "tests/**", false],
    ["{src,docs}/**", "docs/a", true],
    ["src/?.ts", "src/ab.ts", false],
    ["src/[ab].ts", "src/a.ts", true],
    ["src/[ab].ts", "docs/a.ts", false],
    ["app/\\[id\\]/page.tsx", "app/[id]/page.tsx", true],
    ["app/\\[id\\]/page.tsx", "app/home/page.tsx", false],
    ["./src/a.ts", "src/a.ts", true],
    ["migrations/", "migrations/001.sql", true],
    ["src/@(a|b)/x.ts", "src/a/x.ts", true],
    ["src/@(a|b)/x.ts", "docs/a/x.ts", false],
    ["package.json", "package-lock.json", false],
    ["a/**/z", "a/z", true],
    ["a/**/z", "a/b/c/z", true],
    ["a/**/z", "b/**/z", false],
    ["**", ".env", true],
    ["!src/**", "docs/a", true],
  ])("%s and %s: %s", (left, right, overlap) => {
    expect(globsMayOverlap(left, right)).toBe(overlap);
    expect(globsMayOverlap(right, left)).toBe(overlap);
  });

  it(`never says no when a path matches both (seed ${seed})`, () => {
    let matched = 0;
    fc.assert(
      fc.property(pathAndGlobs, ([path, left, right]) => {
        if (!matchesAny([left], path) || !matchesAny([right], path)) return;
        matched += 1;
        expect(globsMayOverlap(left, right), `${left} and ${right} both match ${path}`).toBe(true);
      }),
      { seed, numRuns: 5_000 },
    );
    expect(matched).toBeGreaterThan(1_000);
  });

  it(`matches a literal path with its own glob, and no other (seed ${seed})`, () => {
    const strange = fc.string({ unit: fc.constantFrom(...'ab.[]{}()*?!+@|,$^-\\" '), minLength: 1, maxLength: 8 });
    const plain = strange.filter((name) => name !== "." && name !== ".." && !name.includes("\\"));
    fc.assert(
      fc.property(plain, plain, (one, other) => {
        expect(matchesAny([literalGlob(`d/${one}`)], `d/${one}`)).toBe(true);
        expect(matchesAny([literalGlob(`d/${one}`)], `d/${other}`)).toBe(one === other);
        expect(globsMayOverlap(literalGlob(`d/${one}`), `d/${literalGlob(other)}`)).toBe(one === other);
      }),
      { seed, numRuns: 2_000 },
    );
  });

  it("reads any text without failing or hanging", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 60 }), fc.string({ maxLength: 60 }), (left, right) => {
        expect(typeof globsMayOverlap(left, right)).toBe("boolean");
      }),
      { seed, numRuns: 2_000 },
    );
    const braces = "{a,b}".repeat(40);
    expect(globsMayOverlap(braces, "x")).toBe(true);
    expect(globsMayOverlap("*a".repeat(500), "*b".repeat(500))).toBe(false);
    expect(globsMayOverlap("*a".repeat(500), "a*".repeat(500))).toBe(true);
  });
});

const letter = fc.constantFrom(..."ab.-1");
const segment = fc.string({ unit: letter, minLength: 1, maxLength: 4 }).filter((name) => name !== "." && name !== "..");
const paths = fc.array(segment, { minLength: 1, maxLength: 4 });

/** A glob made from a path by putting patterns in place of parts of it; it often still matches. */
function globFor(path: readonly string[]): fc.Arbitrary<string> {
  const patterns = path.map((name) =>
    fc.oneof(
      fc.constant(name),
      fc.constantFrom(
        "*",
        "**",
        `${name}*`,
        `*${name.slice(1)}`,
        `?${name.slice(1)}`,
        `${name.slice(0, -1)}?`,
        `{${name},b}`,
      ),
      fc.constantFrom(
        `[ab1]${name.slice(1)}`,
        `[!b]${name.slice(1)}`,
        `[a-b]*`,
        `[0-9.]+`,
        `@(${name}|b)`,
        `!(b)`,
        `*(a|b)`,
      ),
      fc.constantFrom(
        `{a,${name}}/**`,
        `{${name},${name}/**}`,
        `${name}**`,
        `+([ab])`,
        `{1..3}`,
        `\\${name}`,
        `a|${name}`,
        "***",
        `"${name}"`,
      ),
      fc.string({ unit: fc.constantFrom(...'ab.*?[]{},()!|-+^\\"1'), minLength: 1, maxLength: 5 }),
    ),
  );
  return fc.tuple(...patterns).chain((parts) => {
    const whole = parts.join("/");
    const start = fc.integer({ min: 0, max: parts.length - 1 });
    return fc.oneof(
      { weight: 4, arbitrary: fc.constant(whole) },
      { weight: 1, arbitrary: start.map((at) => ["**", ...parts.slice(at)].join("/")) },
      { weight: 1, arbitrary: start.map((at) => [...parts.slice(0, at), "**"].join("/")) },
      {
        weight: 1,
        arbitrary: start.map((at) => `{${parts.slice(0, at + 1).join("/")},x}/${parts.slice(at + 1).join("/")}`),
      },
    );
  });
}

const pathAndGlobs = paths.chain((path) => fc.tuple(fc.constant(path.join("/")), globFor(path), globFor(path)));
