import { ApiError } from "../../src/client/api-error.ts";
import { createClient, dataOf } from "../../src/client/client.ts";
import { pageToken } from "./page-token.ts";

/** The client of the server that this page came from; a cookie and a token sign in. */
export const client = createClient({
  baseUrl: location.origin,
  fetch: (request) => {
    request.headers.set("x-wavesmith", pageToken());
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
