import type { Finding } from "../../domain/gate/finding.ts";
import { junitCases } from "../counts/junit.ts";
import { outputLines } from "../text.ts";
import { bundlerErrors, compilerErrors, eslintErrors } from "./compilers.ts";
import { createFailure, type FailureReader, joinNameAndReason, type Lead } from "./failure.ts";
import { cargoFailures, goErrors, goFailures, rustErrors, withoutGoJson } from "./go-rust.ts";
import {
  jestFailures,
  mochaFailures,
  nodeErrors,
  nodeSpecFailures,
  playwrightFailures,
  vitestFailures,
} from "./javascript.ts";
import { pytestFailures, pythonErrors, unittestFailures } from "./python.ts";
import { tapFailures } from "./tap.ts";

const testReaders: readonly FailureReader[] = [
  tapFailures,
  nodeSpecFailures,
  vitestFailures,
  jestFailures,
  playwrightFailures,
  mochaFailures,
  pytestFailures,
  unittestFailures,
  goFailures,
  cargoFailures,
];
const compileReaders: readonly FailureReader[] = [rustErrors, goErrors, compilerErrors, bundlerErrors, eslintErrors];
const crashReaders: readonly FailureReader[] = [pythonErrors, nodeErrors];

const maxFindings = 200;
/** Later failures are only counted, because one failure may be reported many times. */
const maxLeads = 2_000;

/**
 * Finds between one and 200 failures in a command's output and reports: failed tests and compile
 * errors, or else the error that ended the program, or else its last meaningful line.
 */
export function findFailures(output: string, junit: readonly { readonly xml: string }[]): Finding[] {
  const lines = withoutGoJson(outputLines(output));
  const leads = (readers: readonly FailureReader[]) => readers.flatMap((reader) => reader(lines));
  const reported = junit.flatMap((report) => junitFailures(report.xml));
  const namedFailures = readLeads([...reported, ...leads(testReaders), ...leads(compileReaders)]);
  if (namedFailures.length > 0) return namedFailures;
  const crashes = readLeads(leads(crashReaders));
  return crashes.length > 0 ? crashes : [createFailure("command-failed", lastMeaningfulLine(lines))];
}

function junitFailures(xml: string): Lead[] {
  return junitCases(xml)
    .filter((one) => one.outcome === "failed")
    .map((one) => () => {
      const place = {
        ...(one.file === null ? {} : { file: one.file }),
        ...(one.line === null ? {} : { line: one.line }),
      };
      return createFailure("test-failure", joinNameAndReason(one.name, one.message), place);
    });
}

/**
 * Keeps one failure per place and name, because a summary and a report often repeat it. The last
 * one says how many more there are.
 */
function readLeads(leads: readonly Lead[]): Finding[] {
  const findingsByKey = new Map<string, Finding>();
  let read = 0;
  for (; read < leads.length && read < maxLeads && findingsByKey.size < maxFindings; read += 1) {
    const finding = leads[read]!();
    if (finding === null) continue;
    const key = JSON.stringify([finding.file, finding.line, finding.message]);
    if (!findingsByKey.has(key)) findingsByKey.set(key, finding);
  }
  const findings = [...findingsByKey.values()];
  const last = findings.at(-1);
  if (last !== undefined && read < leads.length)
    findings[findings.length - 1] = { ...last, message: `${last.message} (and ${leads.length - read} more)` };
  return findings;
}

/** Lines that package managers and make add after a failure, which say nothing about it. */
const noise =
  /^(?:npm (?:ERR!|error|warn|notice)|make(?:\[\d+\])?: \*\*\*|error Command failed with exit code|info Visit https:\/\/yarnpkg|.?ELIFECYCLE|> |Node\.js v\d|[\W_]*$)/i;

const makeFault = /^make(?:\[\d+\])?: \*\*\* .*Error \d+/;

function lastMeaningfulLine(lines: readonly string[]): string {
  const filled = lines.filter((line) => line.trim() !== "");
  const last = filled.findLast((line) => !noise.test(line.trim()));
  const makeError = filled.findLast((line) => makeFault.test(line));
  // make echoes the commands it runs, so the last line may be an echo; include make's own message.
  if (last !== undefined) return makeError === undefined ? last : `${last.trim()} (${makeError.trim()})`;
  return filled.at(-1) ?? "the command failed and printed nothing";
}
