import createFetchClient, { type Client as FetchClient } from "openapi-fetch";
import { errorOfAnswer, errorWithoutAnswer } from "./api-error.ts";
import type { components, paths } from "./api-types.ts";
import { followEvents, type ServerEvent } from "./follow-events.ts";

// Runs in browsers and in Node: it uses nothing but `fetch`.

/** A type of the API by its name in the OpenAPI document. */
export type ApiType<Name extends keyof components["schemas"]> = components["schemas"][Name];

export interface ClientOptions {
  /** The server, such as `http://127.0.0.1:4400`. */
  readonly baseUrl: string;
  /** Leave it out where a session signs in, as in the dashboard. */
  readonly key?: string;
  readonly fetch?: (request: Request) => Promise<Response>;
}

export interface FollowOptions {
  /** Begins after this event id (of a log: at this offset); default: at the beginning. */
  readonly after?: number;
  /** `false` ends after the last event so far; default `true`. */
  readonly follow?: boolean;
  /** Ends the stream without an error. */
  readonly signal?: AbortSignal;
  /** Told each time before a lost stream is opened again. */
  readonly onLost?: (error: Error) => void;
}

export interface Client {
  /** Every route by its path: `api.GET("/api/v1/builds/{id}", { params: { path: { id } } })`. */
  readonly api: FetchClient<paths>;
  /**
   * Yields the events of a build in order, each once, as `build --json` prints them. A lost stream
   * is opened again where it ended. Rejects with `ApiError` when the server refuses.
   */
  followBuild(buildId: string, options?: FollowOptions): AsyncGenerator<ServerEvent>;
  /** Does the same for a project's builds and sandbox. `project` is an id or a name. */
  followProject(project: string, options?: FollowOptions): AsyncGenerator<ServerEvent>;
  /**
   * Uploads a git bundle of the branch main as a source for builds of a project. Returns its id.
   */
  uploadSource(project: string, bundle: Blob): Promise<string>;
  /** Returns the result of a build as a git bundle of the branch main. */
  downloadResult(buildId: string): Promise<ReadableStream<Uint8Array>>;
  /** Yields an attempt's output: events `log` with `data.text`, then one event `end`. */
  followLog(
    of: { buildId: string; task: string; attempt?: number },
    options?: FollowOptions,
  ): AsyncGenerator<ServerEvent>;
}

/** Creates a client of one server. It connects with the first request. */
export function createClient({ baseUrl, key, fetch = (request) => globalThis.fetch(request) }: ClientOptions): Client {
  const root = baseUrl.replace(/\/+$/, "");
  const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };
  const request = async (asked: Request): Promise<Response> => {
    try {
      return await fetch(asked);
    } catch (error) {
      if (asked.signal.aborted) throw error;
      throw errorWithoutAnswer(root, error);
    }
  };
  const follow = (path: string, query: Readonly<Record<string, string>>, options: FollowOptions = {}) => {
    const asked = new URLSearchParams({ ...query, follow: String(options.follow ?? true) });
    return followEvents({ url: `${root}/api/v1${path}?${asked}`, headers, fetch: request, ...options });
  };
  const part = encodeURIComponent;
  return {
    api: createFetchClient<paths>({ baseUrl: root, headers, fetch: request }),
    async uploadSource(project, bundle) {
      const url = `${root}/api/v1/projects/${part(project)}/sources`;
      const response = await request(new Request(url, { method: "POST", headers, body: bundle }));
      const body = await response.text();
      if (!response.ok) throw errorOfAnswer(response, body);
      return (JSON.parse(body) as { id: string }).id;
    },
    async downloadResult(buildId) {
      const response = await request(new Request(`${root}/api/v1/builds/${part(buildId)}/bundle`, { headers }));
      if (!response.ok || response.body === null) throw errorOfAnswer(response, await response.text());
      return response.body;
    },
    followBuild: (buildId, options) => follow(`/builds/${part(buildId)}/events`, {}, options),
    followProject: (project, options) => follow(`/projects/${part(project)}/events`, {}, options),
    followLog: ({ buildId, task, attempt }, options) =>
      follow(
        `/builds/${part(buildId)}/tasks/${part(task)}/logs`,
        attempt === undefined ? {} : { attempt: String(attempt) },
        { ...options, follow: true },
      ),
  };
}

/** The result of a call of `api`. */
interface Answer<Data> {
  readonly data?: Data;
  readonly error?: unknown;
  readonly response: Response;
}

/** Returns what a call of `api` answered. Rejects with `ApiError` for anything but a success. */
export async function dataOf<Data>(call: Promise<Answer<Data>>): Promise<Data> {
  const { data, error, response } = await call;
  if (!response.ok) throw errorOfAnswer(response, error);
  return data as Data;
}
