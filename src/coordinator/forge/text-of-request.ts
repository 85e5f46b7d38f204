import type { BuildRow, FindingRow, GateRunRow, PullRequestRow, TaskRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";
import { previewAddress } from "../preview/preview-address.ts";

// The text of a pull request. Text from agents and tools is data: it cannot become markup and
// mentions nobody, and its secrets were masked before it was stored.

const mostFindings = 30;

/** The text of agents and tools, on one line and without markup or mentions. */
const plain = (text: string): string =>
  text
    .replace(/\s+/g, " ")
    .replace(/[\\`*_{}[\]<>#|~!&]/g, (mark) => `&#${mark.charCodeAt(0)};`)
    .replace(/@/g, "&#64;")
    .slice(0, 600);

interface OfRequest {
  readonly build: BuildRow;
  readonly row: PullRequestRow;
}

/** Builds the title and our part of the text. */
export async function requestText(
  { store }: Ports,
  { build, row }: OfRequest,
): Promise<{ title: string; body: string }> {
  const tasks = await store.tasks.list({ buildId: build.id }, { by: "position" });
  const waves = await store.waves.list({ buildId: build.id }, { by: "number" });
  const shown = waves.filter(({ number, status }) => status === "passed" && showsWave(row, number));
  const ids = new Set<string>(shown.map(({ id }) => id));
  const runs = await store.gateRuns.list({ buildId: build.id }, { by: "createdAt" });
  const gates = shown.map((wave) => ({ wave, runs: latestRuns(runs.filter((run) => run.waveId === wave.id)) }));
  const findings = await findingsOf(
    store,
    gates.flatMap((one) => one.runs),
  );
  const own = tasks.filter(({ waveId, status }) => waveId !== null && ids.has(waveId) && status === "completed");
  const { plan } = build;
  const part = row.key === "build" ? "" : `, wave ${row.waveNumber}`;
  const intro = plan.description === null ? [] : [plain(plan.description), ""];
  const body = [
    ...intro,
    `**Build** \`${build.id}\` of ${plain(plan.name)}${part}: ${stateText(build)}.`,
    ...["", "### Tasks", "", ...own.map(taskLine)],
    ...["", "### Gates", "", "| wave | gate | verdict | evidence |", "|---|---|---|---|"],
    ...gates.flatMap(({ wave, runs: own }) => own.map((run) => gateLine(wave.number, run))),
    ...(findings.length === 0 ? [] : ["", "### Findings", "", ...findings.slice(0, mostFindings).map(findingLine)]),
    ...(findings.length > mostFindings ? [`- and ${findings.length - mostFindings} more`] : []),
    ...(await costLines(store, build.id)),
    ...(await previewLines(store, { build, row })),
    ...(plan.deliver.issue === undefined ? [] : ["", `Closes #${plan.deliver.issue}`]),
  ];
  return { title: `${plan.name.replace(/\s+/g, " ").slice(0, 200)}${part}`, body: body.join("\n") };
}

/** Whether a request has this wave. */
export const showsWave = ({ key, waveNumber }: PullRequestRow, number: number): boolean =>
  key === "build" ? number <= waveNumber : number === waveNumber;

const stateText = ({ status, reason }: BuildRow): string =>
  status === "completed" ? "completed" : reason === null ? status : `${status}: ${plain(reason)}`;

function taskLine({ key, agent, definition: { title } }: TaskRow): string {
  return `- **${key}** (${agent})${title === key ? "" : `: ${plain(title)}`}`;
}

function gateLine(wave: number, run: GateRunRow): string {
  return `| ${wave} | ${run.gate} | ${run.verdict ?? "not run"} | ${plain(evidenceLine(run))} |`;
}

export function evidenceLine({ evidence, reason }: GateRunRow): string {
  if (evidence === null) return reason ?? "";
  const { command, tests, durationMs, notes } = evidence;
  const counted = tests === null ? [] : [`${tests.passed} of ${tests.total} tests passed`];
  const ran = command === null ? [] : [`${command} (${(durationMs / 1000).toFixed(1)} s)`];
  return [...counted, ...notes, ...ran].join(", ");
}

export const findingLine = ({ severity, rule, message, file, line }: FindingRow): string => {
  const place = file === null ? "" : ` in ${plain(file)}${line === null ? "" : `:${line}`}`;
  return `- ${severity}: ${plain(message)} (${rule}${place})`;
};

/** The last run of each gate. */
export function latestRuns(runs: readonly GateRunRow[]): GateRunRow[] {
  return [...new Map(runs.map((run) => [run.gate, run])).values()];
}

export async function findingsOf(store: Ports["store"], runs: readonly GateRunRow[]): Promise<FindingRow[]> {
  if (runs.length === 0) return [];
  return store.findings.list({ gateRunId: runs.map(({ id }) => id) }, { by: "id" });
}

async function costLines(store: Ports["store"], buildId: string): Promise<string[]> {
  const spent = await store.buildSpending.find({ buildId });
  if (spent === null || spent.spentTokens === 0) return [];
  const usd = spent.unpricedCalls > 0 ? "" : `, ${(spent.spentMicroUsd / 1e6).toFixed(2)} USD`;
  return ["", `**Models:** ${spent.spentTokens} tokens${usd}`];
}

/**
 * Links to the preview of the request's wave once that has answered; one that sleeps starts at the
 * first request. Says so when it has ended.
 */
async function previewLines(store: Ports["store"], { build, row }: OfRequest): Promise<string[]> {
  const preview = await store.previews.find({ buildId: build.id });
  if (preview === null) return [];
  if (row.key !== "build" && preview.waveNumber !== row.waveNumber) return [];
  const name = `**Preview** of wave ${preview.waveNumber}:`;
  if (preview.status === "dead" || preview.status === "stopped") {
    return ["", `${name} ended${preview.reason === null ? "" : `, because ${plain(preview.reason)}`}`];
  }
  const project = await store.projects.get({ id: build.projectId });
  const path = build.plan.preview?.healthPath ?? "/";
  const { ownUrl } = previewAddress({ status: preview.status, project, path });
  return ownUrl === null ? [] : ["", `${name} ${ownUrl}`];
}
