/** A span: a part of a build with a start and an end. */
export interface Span {
  /** 32 hexadecimal digits; one trace per build. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  /** Null for the root. */
  readonly parentSpanId: string | null;
  readonly name: string;
  readonly startedAt: Date;
  readonly endedAt: Date;
  /** Why it failed; null if it did not. */
  readonly failure: string | null;
  /** Whether it is a call of another service. */
  readonly isCall: boolean;
  readonly attributes: Readonly<Record<string, string | number | null>>;
}

/** Sends spans. Rejects if the collector did not take them. */
export interface SpanExporter {
  send(spans: readonly Span[]): Promise<void>;
}
