import { type DiffLineAnnotation, type FileDiffMetadata, parsePatchFiles } from "@pierre/diffs";
import { FileDiff } from "@pierre/diffs/react";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import type { Finding } from "../api/types.ts";
import { SeverityBadge } from "../parts/status.tsx";
import { useTheme } from "../shell/theme.ts";

export type FileChange = FileDiffMetadata;

/** The files of a diff. */
export const filesOf = (text: string): FileChange[] => parsePatchFiles(text).flatMap(({ files }) => files);

/** The lines that a file gained and lost. */
export function lineCounts({ hunks }: FileChange): { readonly added: number; readonly removed: number } {
  return {
    added: hunks.reduce((sum, { additionLines }) => sum + additionLines, 0),
    removed: hunks.reduce((sum, { deletionLines }) => sum + deletionLines, 0),
  };
}

interface DiffViewProps {
  readonly text: string;
  readonly layout: "unified" | "split";
}

/** A whole diff, one file after the other. */
export function DiffView({ text, layout }: DiffViewProps) {
  const files = useMemo(() => filesOf(text), [text]);
  return (
    <div className="stack">
      {files.map((file) => (
        <FileChangeView key={file.name} file={file} layout={layout} findings={[]} />
      ))}
    </div>
  );
}

interface FileChangeViewProps {
  readonly file: FileChange;
  readonly layout: "unified" | "split";
  readonly findings: readonly Finding[];
  readonly isCollapsed?: boolean;
  readonly header?: ReactNode;
}

const linePixels = 20;
/** More lines than this are shown on request only. */
const manyLines = 3_000;

/** One changed file, drawn once it comes into sight; beside its lines what gates said of them. */
export function FileChangeView({ file, layout, findings, isCollapsed = false, header }: FileChangeViewProps) {
  const theme = useTheme();
  const [place, isSeen] = useSeen();
  const [isWanted, setWanted] = useState(file.unifiedLineCount <= manyLines);
  const { added, removed } = lineCounts(file);
  const annotations = useMemo(() => annotationsOf(findings), [findings]);
  const height = isCollapsed ? 0 : Math.min(file.unifiedLineCount, manyLines) * linePixels;
  return (
    <section ref={place} id={file.name} className="file-change card" aria-label={file.name}>
      <header className="file-head row">
        {file.type === "new" && <span className="chip">new</span>}
        {file.type === "deleted" && <span className="chip">deleted</span>}
        <span className="mono small clip grow" title={file.name}>
          {file.prevName !== undefined && file.prevName !== file.name && `${file.prevName} → `}
          {file.name}
        </span>
        <span className="tiny num">
          <span className="added">+{added}</span> <span className="removed">−{removed}</span>
        </span>
        {header}
      </header>
      {!isCollapsed && isSeen && isWanted && file.hunks.length > 0 && (
        <FileDiff
          fileDiff={file}
          disableWorkerPool
          lineAnnotations={annotations}
          renderAnnotation={({ metadata }) => <FindingBeside finding={metadata} />}
          options={{
            diffStyle: layout,
            theme: { dark: "pierre-dark", light: "github-light-high-contrast" },
            themeType: theme,
            disableFileHeader: true,
            overflow: "wrap",
            hunkSeparators: "simple",
            tokenizeMaxLineLength: 2_000,
          }}
        />
      )}
      {!isCollapsed && file.hunks.length === 0 && <p className="empty small">No lines changed, or a binary file.</p>}
      {!isCollapsed && !isWanted && (
        <p className="empty small">
          {file.unifiedLineCount.toLocaleString("en-US")} lines.{" "}
          <button type="button" className="button" onClick={() => setWanted(true)}>
            Show them
          </button>
        </p>
      )}
      {!isSeen && <div style={{ height }} />}
    </section>
  );
}

function annotationsOf(findings: readonly Finding[]): DiffLineAnnotation<Finding>[] {
  return findings.map((finding) => ({ side: "additions", lineNumber: finding.line ?? 0, metadata: finding }));
}

function FindingBeside({ finding }: { readonly finding: Finding }) {
  return (
    <div className="finding finding-beside">
      <div className="row wrap">
        <SeverityBadge severity={finding.severity} />
        <span className="tiny faint mono">{finding.rule}</span>
      </div>
      <div className="small">{finding.message}</div>
    </div>
  );
}

/** Whether an element has come near the window. */
function useSeen() {
  const place = useRef<HTMLElement>(null);
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (entry?.isIntersecting !== true) return;
        setSeen(true);
        observer.disconnect();
      },
      { rootMargin: "600px" },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [place, isSeen] as const;
}
