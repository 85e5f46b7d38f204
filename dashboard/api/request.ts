import { ApiError } from "../../src/client/api-error.ts";
import { createClient, dataOf } from "../../src/client/client.ts";

/** The client of the server that this page came from; a cookie signs in. */
export const client = createClient({
  baseUrl: location.origin,
  fetch: (request) => {
    // Only our own page can send it: a form of another page cannot.
    request.headers.set("x-wavesmith", "dashboard");
    return fetch(request);
  },
});
export const { api } = client;
export { ApiError };

/**
 * Returns what a call answered, as the dashboard reads it: the document leaves open what the
 * answers of `status --json` hold. Fails with `ApiError`.
 */
export const read = async <Reply>(call: Parameters<typeof dataOf<unknown>>[0]): Promise<Reply> =>
  (await dataOf(call)) as Reply;
