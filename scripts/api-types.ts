// Writes the types of our OpenAPI document in the shape that openapi-fetch reads (ADR 26).

import type { ApiContext } from "../src/server/api/endpoint.ts";
import { createApiRoutes } from "../src/server/api/routes.ts";

/** The part of JSON Schema that zod writes for our endpoints. */
interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
  readonly description?: string;
}

type Content = Readonly<Record<string, { readonly schema: Schema }>>;

interface Operation {
  readonly summary: string;
  readonly parameters?: readonly { name: string; in: string; required?: boolean; schema: Schema }[];
  readonly requestBody?: { readonly content: Content; readonly required?: boolean };
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>;
}

interface ApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas?: Readonly<Record<string, Schema>> };
}

/** Stands for the app while routes are made: no request reaches a handler. */
const nothing: unknown = new Proxy(() => nothing, { get: () => nothing });

/** Returns the text of src/client/api-types.ts, which declares `paths` and `components`. */
export async function apiTypes(): Promise<string> {
  const stopping = new AbortController().signal;
  const options = {
    app: nothing,
    callers: nothing,
    cookie: nothing,
    openId: null,
    rateLimit: nothing,
    machine: null,
    serveOrigin: null,
    warn: () => undefined,
    stopping,
    heartbeatMs: 15_000,
    bodyMs: 0,
  } as ApiContext;
  return typesOf((await (await createApiRoutes(options).request("/openapi.json")).json()) as ApiDocument);
}

function typesOf({ paths, components }: ApiDocument): string {
  const names = Object.entries(components.schemas ?? {}).sort(byKey);
  const lines = [
    "// Generated from the OpenAPI document by `npm run client`. Do not edit.",
    "",
    "export interface components {",
    "  schemas: {",
    ...names.map(([name, schema]) => `    ${name}: ${typeOf(schema)};`),
    "  };",
    "}",
    "",
    "export interface paths {",
    ...Object.entries(paths).sort(byKey).flatMap(pathLines),
    "}",
  ];
  return `${lines.join("\n")}\n`;
}

const byKey = ([left]: readonly [string, unknown], [right]: readonly [string, unknown]): number =>
  left < right ? -1 : Number(left > right);

function pathLines([path, operations]: readonly [string, Readonly<Record<string, Operation>>]): string[] {
  const methods = Object.entries(operations)
    .sort(byKey)
    .flatMap(([method, operation]) => [
      ...commentLines(operation.summary),
      `    ${method}: ${operationType(operation)};`,
    ]);
  return [`  ${JSON.stringify(path)}: {`, ...methods, "  };"];
}

function operationType({ parameters = [], requestBody, responses }: Operation): string {
  const places = ["path", "query", "header"].flatMap((place) => {
    const named = parameters.filter((one) => one.in === place);
    if (named.length === 0) return [];
    const isOptional = named.every(({ required }) => required !== true);
    return [`${place}${mark(isOptional)}: { ${named.map(parameterType).join(" ")} };`];
  });
  const body =
    requestBody === undefined
      ? "requestBody?: never;"
      : `requestBody${mark(requestBody.required !== true)}: { content: ${contentType(requestBody.content)} };`;
  const answers = Object.entries(responses).map(
    ([status, { content }]) =>
      `${status}: { headers: { [name: string]: unknown }; content: ${content === undefined ? "never" : contentType(content)} };`,
  );
  return `{ parameters: { ${places.join(" ")} }; ${body} responses: { ${answers.join(" ")} } }`;
}

const mark = (isOptional: boolean): string => (isOptional ? "?" : "");

const parameterType = ({ name, required, schema }: { name: string; required?: boolean; schema: Schema }): string =>
  `${JSON.stringify(name)}${mark(required !== true)}: ${typeOf(schema)};`;

const contentType = (content: Content): string =>
  `{ ${Object.entries(content)
    .map(([media, { schema }]) => `${JSON.stringify(media)}: ${typeOf(schema)};`)
    .join(" ")} }`;

/** Returns a summary as a comment of at most 100 columns. */
function commentLines(summary: string): string[] {
  const line = `    /** ${summary} */`;
  if (line.length <= 100) return [line];
  const at = summary.lastIndexOf(" ", 90);
  return ["    /**", `     * ${summary.slice(0, at)}`, `     * ${summary.slice(at + 1)}`, "     */"];
}

/** Returns a schema as a TypeScript type. Fails for a keyword that it does not know. */
function typeOf(schema: Schema): string {
  const { $ref, type } = schema;
  if ($ref !== undefined) return `components["schemas"][${JSON.stringify($ref.split("/").at(-1))}]`;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return `(${schema.enum.map((value) => JSON.stringify(value)).join(" | ")})`;
  const parts = schema.anyOf ?? schema.oneOf;
  if (parts !== undefined) return `(${parts.map(typeOf).join(" | ")})`;
  if (schema.allOf !== undefined) return `(${schema.allOf.map(typeOf).join(" & ")})`;
  if (typeof type === "object") return `(${type.map((one) => typeOf({ ...schema, type: one })).join(" | ")})`;
  if (type === undefined) return "unknown";
  if (type === "array") return `${typeOf(schema.items ?? {})}[]`;
  if (type === "object") return objectType(schema);
  const simple: Readonly<Record<string, string>> = { integer: "number", null: "null" };
  if (["string", "number", "boolean"].includes(type)) return type;
  if (simple[type] !== undefined) return simple[type];
  throw new Error(`the OpenAPI document has a type that scripts/api-types.ts does not know: ${type}`);
}

function objectType({ properties = {}, required = [], additionalProperties }: Schema): string {
  const members = Object.entries(properties).map(
    ([name, one]) => `${JSON.stringify(name)}${mark(!required.includes(name))}: ${typeOf(one)};`,
  );
  // Where additional keys are allowed, their type must be compatible with the named ones.
  if (additionalProperties === undefined || additionalProperties === false) return `{ ${members.join(" ")} }`;
  const rest = members.length > 0 || additionalProperties === true ? "unknown" : typeOf(additionalProperties);
  return `{ ${[...members, `[key: string]: ${rest};`].join(" ")} }`;
}
