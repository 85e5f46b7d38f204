import { monitorEventLoopDelay } from "node:perf_hooks";
import type { MiddlewareHandler } from "hono";
import { gauge, type Measure } from "../domain/measures.ts";

// The text format of Prometheus, version 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/

export const metricsType = "text/plain; version=0.0.4; charset=utf-8";

/** Writes measures in Prometheus's text format. */
export const exposition = (measures: readonly Measure[]): string =>
  measures
    .flatMap(({ name, type, help, samples }) => [
      `# HELP ${name} ${help.replace(/[\\\n]/g, (sign) => (sign === "\n" ? "\\n" : "\\\\"))}`,
      `# TYPE ${name} ${type}`,
      ...samples.map(({ labels, value }) => `${name}${labelText(labels)} ${value}`),
    ])
    .map((line) => `${line}\n`)
    .join("");

function labelText(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

const escaped = (value: string): string => value.replace(/["\\\n]/g, (sign) => (sign === "\n" ? "\\n" : `\\${sign}`));

/** Counts the requests that a server answers, by method and class of status. */
export interface RequestCounts {
  readonly count: MiddlewareHandler;
  measures(): Measure[];
}

const methods = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

export function createRequestCounts(): RequestCounts {
  const samples = new Map<string, { labels: Record<string, string>; value: number }>();
  return {
    async count(context, next) {
      await next();
      const method = methods.has(context.req.method) ? context.req.method : "other";
      const status = `${Math.floor(context.res.status / 100)}xx`;
      const sample = samples.get(method + status) ?? { labels: { method, status }, value: 0 };
      sample.value += 1;
      samples.set(method + status, sample);
    },
    measures: () => [
      {
        name: "wavesmith_http_requests_total",
        type: "counter",
        help: "Requests that this process has answered.",
        samples: [...samples.values()],
      },
    ],
  };
}

/** Measures this process, under the names that Prometheus's client libraries use. */
export interface ProcessMeter {
  measures(): Measure[];
  stop(): void;
}

export function createProcessMeter(): ProcessMeter {
  const delay = monitorEventLoopDelay({ resolution: 20 });
  delay.enable();
  const startedAt = Date.now() / 1000 - process.uptime();
  return {
    measures() {
      const { user, system } = process.cpuUsage();
      const { rss, heapUsed } = process.memoryUsage();
      const longest = delay.max / 1e9;
      delay.reset();
      const cpu = "Processor time of this process in seconds.";
      return [
        {
          name: "process_cpu_seconds_total",
          type: "counter",
          help: cpu,
          samples: [{ labels: {}, value: (user + system) / 1e6 }],
        },
        gauge("process_resident_memory_bytes", "Resident memory of this process.", rss),
        gauge("process_start_time_seconds", "Start of this process, in seconds since 1970.", startedAt),
        gauge("nodejs_heap_size_used_bytes", "Used heap of this process.", heapUsed),
        gauge("nodejs_eventloop_lag_max_seconds", "Longest delay of the event loop since the last scrape.", longest),
      ];
    },
    stop: () => delay.disable(),
  };
}
