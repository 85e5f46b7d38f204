import { checksJsonSchema, judgeAddedCheck, parseChecks, pathsIn } from "./added-checks.ts";
import { detectTests } from "./detect-tests.ts";
import { fingerprint } from "./fingerprint.ts";
import { gateFiles } from "./gate-files/gate-files.ts";
import { judgeCommand } from "./judge-command.ts";
import { judgeFindings } from "./judge-findings.ts";
import type { Gates } from "./port.ts";
import { parseReview, reviewJsonSchema } from "./review.ts";
import { setAside, sortReview } from "./review-scope.ts";
import { parseSecondLook, secondLookJsonSchema } from "./second-look.ts";
import { staticChecks } from "./static/static-checks.ts";
import { isWeakenedTest } from "./static/weakened-tests.ts";
import { syntaxChecks, syntaxFindingsIn } from "./syntax-stages.ts";

/** Creates the judge of gates. It holds no state. */
export function createGates(): Gates {
  return {
    detectTests,
    staticChecks,
    gateFiles,
    syntaxChecks,
    syntaxFindings: syntaxFindingsIn,
    judgeCommand,
    parseReview,
    reviewSchema: reviewJsonSchema,
    sortReview,
    parseSecondLook,
    secondLookSchema: secondLookJsonSchema,
    setAside,
    parseChecks,
    checksSchema: checksJsonSchema,
    pathsIn,
    judgeAddedCheck,
    judgeFindings,
    fingerprint,
    isWeakenedTest,
  };
}
