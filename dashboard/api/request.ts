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
export { ApiError, dataOf };
