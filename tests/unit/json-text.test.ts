import fc from "fast-check";
import { expect, it } from "vitest";
import { findJsonPlace, jsonPlaces, scalarAt } from "../../src/plan/json-text.ts";

const none = () => {
  throw new Error("no key is repeated");
};

/** Every path in a value, with what is there. */
function partsOf(value: unknown, path: (string | number)[] = []): [(string | number)[], unknown][] {
  const own: [(string | number)[], unknown] = [path, value];
  if (typeof value !== "object" || value === null) return [own];
  const steps = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return [own, ...steps.flatMap(([step, inner]) => partsOf(inner, [...path, step]))];
}

it("finds where each value and key of JSON begins, however it is laid out", () => {
  const layout = fc.constantFrom(undefined, 1, "\t");
  fc.assert(
    fc.property(fc.jsonValue(), layout, (given, space) => {
      const text = ` ${JSON.stringify(given, null, space)}\n`;
      const value = JSON.parse(text);
      const root = jsonPlaces(text, 200, none);
      for (const [path, part] of partsOf(value)) {
        const { place, isWhole } = findJsonPlace(root, path);
        expect(isWhole).toBe(true);
        const isScalar = typeof part !== "object" || part === null;
        const begins = isScalar ? JSON.stringify(part) : Array.isArray(part) ? "[" : "{";
        expect(text.startsWith(begins, place.at)).toBe(true);
        expect(scalarAt(text, place.at)).toBe(isScalar && typeof part !== "string" ? begins : "");
        const key = path.at(-1);
        if (typeof key === "string") expect(text.startsWith(JSON.stringify(key), place.keyAt ?? -1)).toBe(true);
      }
    }),
  );
});

it("reports each repeated key with its path, also when it is written with an escape", () => {
  const text = '{"a": [{"b": 1, "\\u0062": 2}], "quote\\"": 0, "a": {}, "c\\\\": 1}';
  const repeated: unknown[] = [];
  const root = jsonPlaces(text, 200, (path, key, at) => repeated.push([path, key, text.slice(at, at + 3)]));
  expect(repeated).toEqual([
    [["a", 0, "b"], "b", '"\\u'],
    [["a"], "a", '"a"'],
  ]);
  expect(text[findJsonPlace(root, ["a"]).place.at]).toBe("{");
  expect(text[findJsonPlace(root, ["c\\"]).place.at]).toBe("1");
});

it("points at the parent of what is not there", () => {
  const root = jsonPlaces('{"tasks": [{"id": "a"}]}', 200, none);
  const { place, isWhole } = findJsonPlace(root, ["tasks", 0, "run", "x"]);
  expect([place.at, place.keyAt, isWhole]).toEqual([11, null, false]);
});

it("fails before values nested too deeply exhaust the stack", () => {
  expect(() => jsonPlaces(`${"[".repeat(201)}${"]".repeat(201)}`, 199, none)).toThrow(RangeError);
});
