import type { z } from "zod";

const kinds: Readonly<Record<string, string>> = {
  string: "text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
};

/** Says what is wrong with a value, in words that follow its name: `name is missing`. */
export const schemaWording: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case "invalid_type":
      return issue.input === undefined ? "is missing" : `must be ${kinds[issue.expected] ?? issue.expected}`;
    case "unrecognized_keys":
      return `has the unknown ${issue.keys.length === 1 ? "key" : "keys"} ${issue.keys.join(", ")}`;
    case "invalid_value":
      return `must be ${issue.values.map(String).join(" or ")}`;
    case "too_small":
      return `must ${amount(issue.origin, "at least", issue.minimum)}`;
    case "too_big":
      return `must ${amount(issue.origin, "at most", issue.maximum)}`;
    case "invalid_union":
      return "has none of the forms that it may have";
    default:
      return undefined;
  }
};

function amount(origin: string, bound: string, count: number | bigint): string {
  const units = origin === "string" ? "character" : origin === "array" ? "item" : null;
  return units === null ? `be ${bound} ${count}` : `have ${bound} ${count} ${units}${Number(count) === 1 ? "" : "s"}`;
}
