import { expect, it } from "vitest";
import { namingTools } from "../../src/mcp/tool-remedies.ts";

it.each([
  ["wavesmith status bld_x1", "build_status (build bld_x1)"],
  [
    "wave 1 is blocked; see its changes: wavesmith diff bld_x1 --wave 1",
    "wave 1 is blocked; see its changes: build_diff (build bld_x1, wave 1)",
  ],
  ["wavesmith answer bld_x1 7 --allow", "answer_question (build bld_x1, question 7, answer allow)"],
  ['reject it: `wavesmith reject bld_x1 --reason "…"`', 'reject it: reject_wave (build bld_x1, reason "…")'],
  ["wavesmith retry bld_x1, or wavesmith cancel bld_x1", "retry_build (build bld_x1), or cancel_build (build bld_x1)"],
  ["see wavesmith builds", "see list_builds"],
  ["wavesmith resume bld_x1", "`wavesmith resume bld_x1` (ask your person to run it)"],
  ["run `wavesmith doctor`", "run `wavesmith doctor` (ask your person to run it)"],
  [
    "fix the plan; POST /api/v1/plans/check checks it without starting anything",
    "fix the plan; check_plan checks it without starting anything",
  ],
  ["GET /api/v1/builds lists them", "list_builds lists them"],
  ["POST /api/v1/projects creates one", "start_build creates one"],
  ["use another name", "use another name"],
])("tells an agent which tool does the same as %j", (text, told) => {
  expect(namingTools(text)).toBe(told);
});
