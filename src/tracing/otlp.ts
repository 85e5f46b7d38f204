import { messageOf, WavesmithError } from "../domain/errors.ts";
import type { Span, SpanExporter } from "./port.ts";

// OTLP over HTTP as JSON: https://opentelemetry.io/docs/specs/otlp/#otlphttp

export interface OtlpOptions {
  /** The URL of the collector's traces. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
}

/** Short, because the end of a command waits for its last spans. */
const timeoutMs = 3_000;

/** Creates an exporter to an OpenTelemetry collector. Fails with `environment`. */
export function createOtlpExporter({ url, headers, serviceName }: OtlpOptions): SpanExporter {
  return {
    async send(spans) {
      const body = JSON.stringify(requestOf(spans, serviceName));
      const problem = (why: string, cause?: unknown): WavesmithError =>
        new WavesmithError("environment", `traces cannot be sent to ${new URL(url).host}: ${why}`, {
          remedy: "check OTEL_EXPORTER_OTLP_ENDPOINT: it takes OTLP over HTTP, usually at port 4318",
          retryable: true,
          cause,
        });
      const response = await fetch(url, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body,
        signal: AbortSignal.timeout(timeoutMs),
      }).catch((error: unknown) => {
        throw problem(error instanceof Error && error.cause !== undefined ? messageOf(error.cause) : messageOf(error));
      });
      await response.body?.cancel();
      if (!response.ok) throw problem(`it answered ${response.status}`);
    },
  };
}

const requestOf = (spans: readonly Span[], serviceName: string) => ({
  resourceSpans: [
    {
      resource: { attributes: attributesOf({ "service.name": serviceName }) },
      scopeSpans: [{ scope: { name: "wavesmith" }, spans: spans.map(spanOf) }],
    },
  ],
});

const internal = 1;
const client = 3;
const statusError = 2;

const spanOf = ({ parentSpanId, startedAt, endedAt, failure, isCall, attributes, ...names }: Span) => ({
  ...names,
  ...(parentSpanId === null ? {} : { parentSpanId }),
  kind: isCall ? client : internal,
  startTimeUnixNano: nanoseconds(startedAt),
  endTimeUnixNano: nanoseconds(endedAt < startedAt ? startedAt : endedAt),
  attributes: attributesOf(attributes),
  status: failure === null ? {} : { code: statusError, message: failure },
});

/** As text, because JSON has no 64-bit numbers. */
const nanoseconds = (moment: Date): string => `${moment.getTime()}000000`;

const attributesOf = (attributes: Span["attributes"]) =>
  Object.entries(attributes).flatMap(([key, value]) => (value === null ? [] : [{ key, value: otlpValue(value) }]));

const otlpValue = (value: string | number) =>
  typeof value === "string"
    ? { stringValue: value }
    : Number.isInteger(value)
      ? { intValue: String(value) }
      : { doubleValue: value };
