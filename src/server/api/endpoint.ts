import { createHash } from "node:crypto";
import type { ReadableStream } from "node:stream/web";
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { Caller, Scope } from "../../domain/access.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { Callers } from "../access/keys-and-sessions.ts";
import type { OpenIdSignIn } from "../access/open-id.ts";
import type { RateLimit } from "../access/rate-limit.ts";
import type { SessionCookie } from "../access/session-cookie.ts";
import type { ServedApp, ServedMachine } from "../port.ts";

export interface ApiContext {
  readonly callers: Callers;
  readonly cookie: SessionCookie;
  /** Null where people sign in with keys only. */
  readonly openId: OpenIdSignIn | null;
  readonly rateLimit: RateLimit;
  readonly app: ServedApp;
  /** Where others reach the server; null for the address that it listens on. */
  readonly serveOrigin: string | null;
  /** Null where nothing can look at the machine. */
  readonly machine: ServedMachine | null;
  readonly warn: (message: string) => void;
  /** Aborted when the server stops, which ends every stream. */
  readonly stopping: AbortSignal;
  /** Milliseconds after which a silent stream shows that it lives. */
  readonly heartbeatMs: number;
  /** Milliseconds that a request's body may take. */
  readonly bodyMs: number;
}

/** The request that a handler gets; each part has passed its schema. */
export interface ApiCall<Params, Query, Body> {
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  /** The caller. An endpoint that needs no scope must not read it. */
  readonly caller: Caller;
  header(name: string): string | undefined;
  /** Aborted when the client is gone. */
  readonly gone: AbortSignal;
  /** Whether the key or session is still valid, for streams that outlive the first check. */
  isAllowed(): Promise<boolean>;
}

export interface ApiReply {
  readonly status?: 200 | 201 | 202 | 204;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/**
 * How a request's body is read: as JSON by its schema, as text for a plan, or as a stream of bytes.
 */
type BodyOf = { readonly schema: z.ZodType } | { readonly plan: true } | { readonly upload: string };

/** A route of the API, from which its checks and its documentation are made. */
export interface Endpoint {
  readonly method: "get" | "post" | "put" | "delete";
  /** As OpenAPI writes it: `/builds/{id}`. */
  readonly path: string;
  readonly summary: string;
  /** The scope that the caller's key needs; `nothing`: no key is needed. */
  readonly needs: Scope | "nothing";
  readonly params: z.ZodObject;
  readonly query: z.ZodObject;
  readonly body: BodyOf | null;
  readonly reply: z.ZodType;
  readonly status: 200 | 201 | 202 | 204;
  /** The media type of the answer, where it is not JSON. */
  readonly media: string | null;
  handle(call: ApiCall<never, never, never>): Promise<ApiReply | Response>;
}

interface Spec<Params extends z.ZodObject, Query extends z.ZodObject, Body extends z.ZodType> {
  readonly summary: string;
  /** Default: `read` for GET, otherwise `build`. */
  readonly needs?: Scope | "nothing";
  readonly params?: Params;
  readonly query?: Query;
  readonly body?: Body;
  readonly reply: z.ZodType;
  readonly status?: 200 | 201 | 202 | 204;
  readonly media?: string;
  handle(call: ApiCall<z.infer<Params>, z.infer<Query>, z.infer<Body>>): Promise<ApiReply | Response>;
}

type None = z.ZodObject<Record<never, never>>;
const none: None = z.strictObject({});

/** Defines a route whose body, if it has one, is JSON. */
export function endpoint<
  Params extends z.ZodObject = None,
  Query extends z.ZodObject = None,
  Body extends z.ZodType = z.ZodUndefined,
>(place: string, spec: Spec<Params, Query, Body>): Endpoint {
  const [method, path] = place.split(" ") as [Endpoint["method"], string];
  return {
    method,
    path,
    summary: spec.summary,
    needs: spec.needs ?? (method === "get" ? "read" : "build"),
    params: spec.params ?? none,
    query: spec.query ?? none,
    body: spec.body === undefined ? null : { schema: spec.body },
    reply: spec.reply,
    status: spec.status ?? 200,
    media: spec.media ?? null,
    handle: (call) => spec.handle(call),
  };
}

/** The body of a request that is a plan, as it was sent. */
export interface PlanBody {
  readonly text: string;
  readonly format: "yaml" | "json";
}

/** Defines a route whose body is a plan in YAML or JSON. */
export const planEndpoint = <Params extends z.ZodObject = None, Query extends z.ZodObject = None>(
  place: string,
  spec: Omit<Spec<Params, Query, z.ZodType<PlanBody>>, "body">,
): Endpoint => ({ ...endpoint<Params, Query, z.ZodType<PlanBody>>(place, spec), body: { plan: true } });

/** Defines a route whose body is a stream of bytes of this media type, without the usual limit. */
export const uploadEndpoint = <Params extends z.ZodObject = None, Query extends z.ZodObject = None>(
  place: string,
  upload: string,
  spec: Omit<Spec<Params, Query, z.ZodType<ReadableStream | null>>, "body">,
): Endpoint => ({ ...endpoint<Params, Query, z.ZodType<ReadableStream | null>>(place, spec), body: { upload } });

export const idParams = z.strictObject({ id: z.string().min(1).max(100) });

/** The person who says or decides something: the field `by` of a body. */
export const personName = z.string().trim().min(1).max(200).default("the API");

/** The query of a list: where to continue, and how many items at most. */
export const pageQuery = z.strictObject({
  cursor: z.string().max(200).optional(),
  limit: z.coerce.number().int().min(1).max(200).default(50),
});

export const pageOf = (item: z.ZodType) => z.looseObject({ items: z.array(item), nextCursor: z.string().nullable() });

/** A page of a list that was read with one row more than `limit`. */
export function page<Row, Item>(
  rows: readonly Row[],
  { limit, cursorOf, show }: { limit: number; cursorOf: (row: Row) => string | number; show: (row: Row) => Item },
) {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const nextCursor = rows.length > limit && last !== undefined ? cursorText(cursorOf(last)) : null;
  return { items: shown.map(show), nextCursor };
}

const cursorText = (value: string | number): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/** Reads a cursor that we gave out. Fails with `usage`. */
export function cursorValue<Kind extends "string" | "number">(
  cursor: string | undefined,
  kind: Kind,
): { after?: Kind extends "string" ? string : number } {
  if (cursor === undefined) return {};
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
    if (kind === "number" ? Number.isSafeInteger(value) : typeof value === "string" && !value.includes("\0"))
      return { after: value as Kind extends "string" ? string : number };
  } catch {
    // Somebody else's cursor; the error below says so.
  }
  throw new WavesmithError("usage", "the cursor is not one that this list gave", {
    remedy: "use nextCursor of the page before, or leave it out",
  });
}

/** Sends JSON with an ETag, or 304 if the client has it. A large text is turned into bytes once. */
export function jsonReply(context: Context, { status = 200, headers = {}, body }: ApiReply): Response {
  const bytes = Buffer.from(JSON.stringify(body));
  if (context.req.method !== "GET") {
    return new Response(bytes, { status, headers: { "content-type": "application/json", ...headers } });
  }
  const etag = headers.etag ?? `"${createHash("sha256").update(bytes).digest("base64url").slice(0, 27)}"`;
  const known = context.req.header("if-none-match") ?? "";
  const common = { etag, "cache-control": "private, no-cache", ...headers };
  const isKnown = known.split(",").some((one) => one.trim().replace(/^W\//, "") === etag || one.trim() === "*");
  if (isKnown) return new Response(null, { status: 304, headers: common });
  return new Response(bytes, { status, headers: { "content-type": "application/json", ...common } });
}

/** Sends committed events now; what this cannot send, the reconciler sends later. */
export function sendSoon(app: Pick<ServedApp, "flush">): void {
  app.flush().catch(() => undefined);
}
