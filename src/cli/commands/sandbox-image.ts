import { resolve } from "node:path";
import { type Context, refuseServer } from "../context.ts";
import { watchInterrupts } from "../interrupts.ts";
import { exit } from "../output/exit-codes.ts";
import { bytesText, duration, oneLine } from "../output/format.ts";
import type { Output } from "../output/output.ts";
import { type BuiltImage, buildSandboxImage, type ImageProgress } from "../parts.ts";

export interface ImageOptions {
  readonly base?: string;
  readonly ca?: string;
  readonly chromium?: boolean;
}

/**
 * `sandbox image build`: builds the image of Docker sandboxes, showing each step. Ctrl-C also stops
 * the engine's build.
 */
export async function sandboxImageBuild(context: Context, options: ImageOptions): Promise<number> {
  await refuseServer(context, "it builds with this machine's Docker");
  const config = await context.config();
  const startedAt = Date.now();
  const steps = context.json ? asJson(context.out) : context.out.live ? asLive(context.out) : asLines(context.out);
  const abort = new AbortController();
  const interrupts = watchInterrupts(process);
  interrupts.on(() => abort.abort());
  try {
    const image = await buildSandboxImage(config, {
      base: options.base ?? null,
      certificates: options.ca === undefined ? null : resolve(options.ca),
      chromium: options.chromium === true,
      onProgress: steps.show,
      signal: abort.signal,
    });
    steps.end();
    printImage(context, image, Date.now() - startedAt);
    return exit.ok;
  } catch (error) {
    steps.end();
    if (!abort.signal.aborted) throw error;
    context.out.note("interrupted: no image was built");
    return exit.cancelled;
  } finally {
    interrupts.dispose();
  }
}

function printImage({ out, json }: Context, image: BuiltImage, tookMs: number): void {
  if (json) {
    out.json({ type: "image", ...image });
    return;
  }
  const { versions } = image;
  out.line(`${image.unchanged ? "unchanged" : "made"}: ${image.image} in ${duration(tookMs)}`);
  out.line(`  id        ${image.id}`);
  out.line(`  size      ${bytesText(image.sizeBytes)}`);
  out.line(`  inside    Node ${versions.node}, git ${versions.git}, Python ${versions.python}`);
  out.line(`  guest     protocol ${image.protocol}`);
}

/** Shows the progress of an image build until `end`. */
interface Steps {
  readonly show: (progress: ImageProgress) => void;
  readonly end: () => void;
}

const asJson = (out: Output): Steps => ({ show: (progress) => out.json(progress), end: () => undefined });

/** Whether an instruction takes time; the others only set metadata. */
const isWork = (instruction: string): boolean => /^(?:FROM|RUN|COPY|ADD) /.test(instruction);

/** Prints each step when it begins. */
const asLines = (out: Output): Steps => ({
  show: (progress) => {
    if (progress.type !== "step" || !isWork(progress.instruction)) return;
    out.line(`step ${progress.step}/${progress.steps}: ${oneLine(progress.instruction).slice(0, 160)}`);
  },
  end: () => undefined,
});

/** Prints each finished step, and below them the last line of the running one. */
function asLive(out: Output): Steps {
  let step: { title: string; startedAt: number; cached: boolean } | null = null;
  // Some terminals do not report their width.
  const width = (): number => Math.max(40, out.size().columns);
  const cut = (text: string): string => text.slice(0, width() - 1);
  const clear = "\r\x1b[K";
  const settle = (mark: string): void => {
    if (step === null) return;
    const took = step.cached ? "cached" : duration(Date.now() - step.startedAt);
    out.raw(clear);
    out.line(`${mark} ${step.title.slice(0, width() - 16)}  ${took}`);
    step = null;
  };
  return {
    show: (progress) => {
      if (progress.type === "cached") {
        if (step !== null) step.cached = true;
      } else if (progress.type === "output") {
        out.raw(`${clear}${out.paint("dim", cut(`  ${oneLine(progress.text)}`))}`);
      } else {
        settle(out.paint("good", "✓"));
        const title = `${progress.step}/${progress.steps} ${oneLine(progress.instruction)}`;
        if (isWork(progress.instruction)) step = { title, startedAt: Date.now(), cached: false };
        if (step !== null) out.raw(`${clear}${cut(`… ${title}`)}`);
      }
    },
    end: () => settle(" "),
  };
}
