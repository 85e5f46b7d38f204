import { type DiffLineAnnotation, type FileDiffMetadata, parsePatchFiles, setLanguageOverride } from "@pierre/diffs";
import { FileDiff } from "@pierre/diffs/react";
import { memo, type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { Icon } from "../parts/icon.tsx";
import { languageOf } from "../parts/languages.ts";
import { plainText } from "../parts/plain-text.ts";
import { SeverityBadge } from "../parts/status.tsx";
import { useTheme } from "../shell/theme.ts";
import { CommentBeside, CommentForm, type Place } from "./comments.tsx";

export type FileChange = FileDiffMetadata;

/** The files of a diff. */
export const filesOf = (text: string): FileChange[] =>
  parsePatchFiles(text).flatMap(({ files }) => files.map((file) => setLanguageOverride(file, languageOf(file.name))));

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
        <FileChangeView key={file.name} file={file} layout={layout} beside={[]} />
      ))}
    </div>
  );
}

/** Something said about a file. */
export type Remark =
  | { readonly kind: "finding"; readonly finding: ApiType<"GateFinding"> }
  | { readonly kind: "comment"; readonly comment: ApiType<"PersonsFindingRow"> };
type Beside = Remark | { readonly kind: "draft"; readonly place: Place };
interface Placed {
  readonly one: Beside;
}

/** Where a reader's comments go. */
export interface Commenting {
  readonly buildId: string;
  readonly task: string | undefined;
}

interface FileChangeViewProps {
  readonly file: FileChange;
  readonly layout: "unified" | "split";
  readonly beside: readonly Remark[];
  readonly isCollapsed?: boolean;
  readonly header?: ReactNode;
  /** Absent where nobody would read a comment. */
  readonly commenting?: Commenting | undefined;
}

/** More lines than this are shown on request only. */
const manyLines = 3_000;

/**
 * One changed file, coloured once it scrolls into view, with gates' findings and people's comments
 * beside its lines.
 */
export function FileChangeView(props: FileChangeViewProps) {
  const { file, layout, beside, isCollapsed = false, header, commenting } = props;
  const [place, isSeen] = useSeen();
  const [draft, setDraft] = useState<Place | null>(null);
  return (
    <section ref={place} id={file.name} className="file-change card" aria-label={file.name}>
      <FileHead file={file}>
        {commenting !== undefined && !isCollapsed && (
          <button
            type="button"
            className="button quiet"
            aria-label={`Comment on ${file.name}`}
            onClick={() => setDraft({ file: file.name, lines: "" })}
          >
            <Icon name="comment" /> <span className="wide-only">Comment</span>
          </button>
        )}
        {header}
      </FileHead>
      {!isCollapsed && <FileBody {...{ file, layout, beside, commenting, isSeen, draft }} onDraft={setDraft} />}
    </section>
  );
}

interface FileBodyProps extends Pick<FileChangeViewProps, "file" | "layout" | "beside" | "commenting"> {
  readonly isSeen: boolean;
  /** Where the comment goes that the reader is writing. */
  readonly draft: Place | null;
  readonly onDraft: (draft: Place | null) => void;
}

function FileBody({ file, layout, beside, commenting, isSeen, draft, onDraft }: FileBodyProps) {
  const [isWanted, setWanted] = useState(file.unifiedLineCount <= manyLines);
  const [isDrawn, setDrawn] = useState(false);
  const annotations = useMemo(() => annotationsOf(beside, draft), [beside, draft]);
  const show = (one: Beside): ReactNode => {
    if (one.kind === "finding") return <FindingBeside finding={one.finding} />;
    if (one.kind === "comment") return <CommentBeside comment={one.comment} />;
    if (commenting === undefined) return null;
    return <CommentForm {...commenting} place={one.place} onClose={() => onDraft(null)} />;
  };
  const onWholeFile = annotations.filter(({ lineNumber }) => lineNumber === 0);
  if (file.hunks.length === 0) return <p className="empty small">No lines changed, or a binary file.</p>;
  return (
    <>
      {onWholeFile.map(({ metadata: { one } }) => (
        <div key={keyOf(one)}>{show(one)}</div>
      ))}
      {isSeen && isWanted && (
        <ColouredLines
          {...{ file, layout, show }}
          annotations={annotations.filter(({ lineNumber }) => lineNumber > 0)}
          onDrawn={setDrawn}
          onDraft={commenting === undefined ? undefined : onDraft}
        />
      )}
      {!isWanted && (
        <p className="empty small">
          {file.unifiedLineCount.toLocaleString("en-US")} lines.{" "}
          <button type="button" className="button" onClick={() => setWanted(true)}>
            Show them
          </button>
        </p>
      )}
      {!(isSeen && isDrawn) && isWanted && <PlainLines file={file} />}
    </>
  );
}

interface ColouredLinesProps extends Pick<FileChangeViewProps, "file" | "layout"> {
  readonly annotations: DiffLineAnnotation<Placed>[];
  readonly show: (one: Beside) => ReactNode;
  readonly onDrawn: (isDrawn: boolean) => void;
  /** Absent where nobody would read a comment. */
  readonly onDraft: ((draft: Place) => void) | undefined;
}

function ColouredLines({ file, layout, annotations, show, onDrawn, onDraft }: ColouredLinesProps) {
  const theme = useTheme();
  return (
    <FileDiff
      fileDiff={file}
      disableWorkerPool
      lineAnnotations={annotations}
      renderAnnotation={({ metadata: { one } }) => show(one)}
      options={{
        diffStyle: layout,
        theme: { dark: "github-dark-high-contrast", light: "github-light-high-contrast" },
        themeType: theme,
        disableFileHeader: true,
        onPostRender: ({ shadowRoot }) => onDrawn(shadowRoot?.querySelector("[data-line]") != null),
        overflow: "wrap",
        hunkSeparators: "simple",
        tokenizeMaxLineLength: 2_000,
        enableGutterUtility: onDraft !== undefined,
        onGutterUtilityClick: ({ start, end, side = "additions", endSide = side }) => {
          // A removed line has no number in the new version, which the fixer works on.
          const isNew = side === "additions" && endSide === "additions";
          const [first, last] = [Math.min(start, end), Math.max(start, end)];
          const lines = !isNew ? "" : first === last ? String(first) : `${first}-${last}`;
          onDraft?.({ file: file.name, lines });
        },
      }}
    />
  );
}

/** The lines of a file before they are drawn in colour, so that no file is ever blank. */
const PlainLines = memo(function PlainLines({ file }: { readonly file: FileChange }) {
  return <pre className="file-plain">{plainLinesOf(file).join("")}</pre>;
});

function plainLinesOf({ hunks, additionLines, deletionLines }: FileChange): string[] {
  const part = (sign: string, lines: readonly string[], from: number, count: number): string[] =>
    lines.slice(from, from + count).map((line) => `${sign} ${line.replace(/\n?$/, "\n")}`);
  return hunks.flatMap(({ hunkContent }) =>
    hunkContent.flatMap((content) =>
      content.type === "context"
        ? part(" ", additionLines, content.additionLineIndex, content.lines)
        : [
            ...part("−", deletionLines, content.deletionLineIndex, content.deletions),
            ...part("+", additionLines, content.additionLineIndex, content.additions),
          ],
    ),
  );
}

function FileHead({ file, children }: { readonly file: FileChange; readonly children: ReactNode }) {
  const { added, removed } = lineCounts(file);
  return (
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
      {children}
    </header>
  );
}

const lineOf = (one: Beside): number => {
  if (one.kind === "finding") return one.finding.line ?? 0;
  if (one.kind === "comment") return one.comment.endLine ?? one.comment.line ?? 0;
  return Number(one.place.lines.split("-").at(-1));
};
const keyOf = (one: Beside): string => {
  if (one.kind === "finding") return `${one.finding.rule} ${one.finding.message}`;
  return one.kind === "comment" ? `comment ${one.comment.id}` : `draft ${one.place.lines}`;
};

function annotationsOf(beside: readonly Remark[], draft: Place | null): DiffLineAnnotation<Placed>[] {
  const all: readonly Beside[] = draft === null ? beside : [...beside, { kind: "draft", place: draft }];
  return all.map((one) => ({ side: "additions", lineNumber: lineOf(one), metadata: { one } }));
}

function FindingBeside({ finding }: { readonly finding: ApiType<"GateFinding"> }) {
  return (
    <div className="finding finding-beside">
      <div className="row wrap">
        <SeverityBadge severity={finding.severity} />
        <span className="tiny faint mono">{finding.rule}</span>
      </div>
      <div className="small">{plainText(finding.message)}</div>
    </div>
  );
}

/** Files that are only scrolled past are not coloured. */
const settleMs = 150;

/** Whether an element has come close to the visible area and stayed there. */
function useSeen() {
  const place = useRef<HTMLElement>(null);
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const observer = new IntersectionObserver(
      (entries) => {
        clearTimeout(timer);
        // The browser may report several changes at once; the last one is how things are now.
        if (entries.at(-1)?.isIntersecting !== true) return;
        timer = setTimeout(() => {
          setSeen(true);
          observer.disconnect();
        }, settleMs);
      },
      { rootMargin: "300px" },
    );
    observer.observe(element);
    return () => {
      clearTimeout(timer);
      observer.disconnect();
    };
  }, []);
  return [place, isSeen] as const;
}
