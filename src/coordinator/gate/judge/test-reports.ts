import { WavesmithError } from "../../../domain/errors.ts";
import type { Plan } from "../../../domain/plan/plan.ts";
import { handoverPath } from "../../../domain/sandbox/volume-paths.ts";
import type { TestReport } from "../../../gates/port.ts";
import type { SandboxEndpoint, StageState } from "../../../sandbox/port.ts";

// Reads test reports, at the usual places of a gate's tree or where `gates.testing.report` puts
// one. A job writes them, so they may be anything: we read only regular files of limited size.

const junitPaths = ["junit.xml", "report.xml", "test-results.xml", "test-results/junit.xml", "reports/junit.xml"];
const mebibyte = 1024 * 1024;
const largestReportBytes = 16 * mebibyte;

type TestingReport = NonNullable<Exclude<Plan["gates"]["testing"], false>["report"]>;

export interface GateReports {
  readonly junit: { path: string; xml: string }[];
  /** Explanations of files at such places that are not reports. */
  readonly odd: string[];
}

/** Reads the JUnit reports at the usual places that this run wrote. */
export async function usualReports(
  endpoint: SandboxEndpoint,
  treePath: string,
  stage: StageState,
): Promise<GateReports> {
  const reports: GateReports = { junit: [], odd: [] };
  for (const path of junitPaths) {
    const report = await readReport(endpoint, `${treePath}/${path}`, stage);
    if (report === null) continue;
    if ("text" in report) reports.junit.push({ path, xml: report.text });
    else reports.odd.push(`${path} ${report.odd}`);
  }
  return reports;
}

async function readReport(
  { guest }: SandboxEndpoint,
  path: string,
  stage: StageState,
): Promise<{ text: string } | { odd: string } | null> {
  try {
    const stat = await guest.stat(path);
    if (stat === null || stat.type === "directory") return null;
    if (stage.startedAt === null || stat.modifiedAt < stage.startedAt) return null;
    if (stat.type !== "file") return { odd: stat.type === "symlink" ? "is a symbolic link" : "is not a regular file" };
    if (stat.sizeBytes > largestReportBytes) return { odd: `is larger than ${largestReportBytes / mebibyte} MiB` };
    const bytes = await guest.readFile(path, { maxBytes: largestReportBytes });
    return bytes === null ? null : { text: bytes.toString("utf8") };
  } catch (error) {
    // The guest cannot read it, for example because a folder on its path leads out of the volume.
    if (!(error instanceof WavesmithError) || error.retryable || error.code === "sandbox-unavailable") throw error;
    return { odd: `cannot be read: ${error.message}` };
  }
}

const reportName = "test-report";
const formats = { junit: "junit", node: "junit", pytest: "junit", tap: "tap" } as const;

/** Returns the environment variables that tell the testing command where to write its report. */
export function reportEnv(
  report: TestingReport | undefined,
  jobKey: string,
  { env, workspaceRoot }: { env: Readonly<Record<string, string>>; workspaceRoot: string },
): Record<string, string> {
  if (report === undefined) return {};
  const path = `${workspaceRoot}/${handoverPath(jobKey)}/${reportName}`;
  const added = (name: string, words: string) => ({ [name]: `${env[name] ?? ""} ${words}`.trim() });
  const quoted = `"${path.replace(/["\\]/g, "\\$&")}"`;
  const options: Record<TestingReport, Record<string, string>> = {
    junit: {},
    tap: {},
    node: added(
      "NODE_OPTIONS",
      `--test-reporter=junit --test-reporter-destination=${quoted} --test-reporter=spec --test-reporter-destination=stdout`,
    ),
    pytest: added("PYTEST_ADDOPTS", `--junitxml=${quoted}`),
  };
  return { WAVESMITH_REPORT: path, ...options[report] };
}

/**
 * Reads the report that the plan requires; its text is null if the command wrote none. Undefined if
 * the plan requires none.
 */
export async function askedReport(
  endpoint: SandboxEndpoint,
  report: TestingReport | undefined,
  jobKey: string,
  stage: StageState,
): Promise<TestReport | undefined> {
  if (report === undefined) return undefined;
  const read = await readReport(endpoint, `${handoverPath(jobKey)}/${reportName}`, stage);
  const format = formats[report];
  if (read === null) return { format, text: null, odd: null };
  return "text" in read ? { format, text: read.text, odd: null } : { format, text: null, odd: read.odd };
}
