import type { ServerResponse } from "node:http";
import type { ProviderName } from "../domain/models.ts";

const types = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  502: "api_error",
} as const;

/** Google's names for the error types of other providers. */
const googleStatuses: Readonly<Record<keyof typeof types, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  402: "FAILED_PRECONDITION",
  404: "NOT_FOUND",
  413: "INVALID_ARGUMENT",
  429: "RESOURCE_EXHAUSTED",
  502: "UNAVAILABLE",
};

/** A refused call. */
export class Refusal extends Error {
  readonly status: keyof typeof types;
  constructor(status: keyof typeof types, reason: string) {
    super(`wavesmith: ${reason}`);
    this.status = status;
  }
}

/** Formats a refusal in the provider's form, the only one that agents read. */
export function refuse(
  response: ServerResponse,
  { status, message }: Refusal,
  provider: ProviderName | null = null,
): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const type = types[status];
  // Valid in both Anthropic's and OpenAI's format.
  const usual = { type: "error", error: { type, code: type, message } };
  const google = { error: { code: status, message, status: googleStatuses[status] } };
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(provider === "google" ? google : usual));
}
