import schemas from "@octokit/webhooks-schemas" with { type: "json" };
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { type GithubEvent, githubPayloads } from "../../src/webhooks/github-payloads.ts";

// GitHub's own description of its webhooks, compared with the fields that we read.

interface Node {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Node>>;
  readonly items?: Node;
  readonly allOf?: readonly Node[];
  readonly anyOf?: readonly Node[];
  readonly oneOf?: readonly Node[];
}

const definitions = schemas.definitions as unknown as Readonly<Record<string, Node>>;

/** Every shape that a value may have, each as the nodes that together describe it. */
function shapesOf(node: Node): Node[][] {
  if (node.$ref !== undefined) return shapesOf(definitions[node.$ref.replace("#/definitions/", "")]!);
  const either = node.oneOf ?? node.anyOf;
  if (either !== undefined) return either.flatMap(shapesOf);
  return (node.allOf ?? []).reduce<Node[][]>(
    (shapes, part) => shapes.flatMap((shape) => shapesOf(part).map((more) => [...shape, ...more])),
    [[node]],
  );
}

const isNull = (shape: readonly Node[]): boolean => shape.some(({ type }) => type === "null");
const mayBeNull = (shape: readonly Node[]): boolean =>
  isNull(shape) || shape.some(({ type }) => Array.isArray(type) && type.includes("null"));

/**
 * Lists fields that we read and GitHub does not describe, and fields that we require and GitHub may
 * leave out.
 */
function differences(ours: Node, theirs: readonly Node[][], path: string): string[] {
  const [own] = shapesOf(ours).filter((shape) => !isNull(shape));
  const parts = theirs.filter((shape) => !isNull(shape));
  const takesAnything = ours.type === undefined && ours.anyOf === undefined;
  const takesNull = takesAnything || shapesOf(ours).some(mayBeNull);
  const found = !takesNull && theirs.some(mayBeNull) ? [`${path} may be null`] : [];
  const items = own?.find((node) => node.items !== undefined)?.items;
  if (items !== undefined) {
    const each = parts.flatMap((shape) => shape.flatMap((node) => (node.items ? shapesOf(node.items) : [])));
    return [...found, ...differences(items, each, `${path}[]`)];
  }
  for (const [name, field] of Object.entries(own?.find((node) => node.properties !== undefined)?.properties ?? {})) {
    const given = parts.map((shape) => shape.flatMap((node) => node.properties?.[name] ?? []));
    const values = given.flatMap((fields) => fields.slice(-1).flatMap(shapesOf));
    const isRequired = own!.some((node) => node.required?.includes(name));
    const isSure = parts.every((shape) => shape.some((node) => node.required?.includes(name)));
    if (values.length === 0) found.push(`${path}.${name} is unknown`);
    else if (isRequired && !isSure) found.push(`${path}.${name} may be missing`);
    found.push(...differences(field, values, `${path}.${name}`));
  }
  return found;
}

// Newer than this description, but in GitHub's API reference.
const newer = ["pull_request_review_thread.updated_at is unknown"];

describe("what we read of GitHub's webhooks", () => {
  it.each(Object.keys(githubPayloads) as GithubEvent[])("stands in GitHub's description of %s", (event) => {
    const ours = z.toJSONSchema(githubPayloads[event], { io: "input", unrepresentable: "any" }) as Node;
    const theirs = definitions[`${event}_event`] ?? definitions[`${event}$event`];
    const found = differences(ours, shapesOf(theirs!), event);
    expect(found.filter((difference) => !newer.includes(difference))).toEqual([]);
  });
});
