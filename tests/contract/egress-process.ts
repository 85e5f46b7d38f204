// A separate process that starts a sandbox's proxy. Its argument is the request. Prints the folder.
import { setInterval } from "node:timers";
import { type EgressRequest, startEgress } from "../../src/sandbox/egress/egress.ts";

const { hang, ...request } = JSON.parse(process.argv[2]!) as EgressRequest & { hang?: boolean };
const { folder } = await startEgress(request);
process.stdout.write(`${folder}\n`);
if (hang) setInterval(() => undefined, 1000);
