import type { ApiType } from "../../src/client/client.ts";
import { Icon } from "../parts/icon.tsx";
import { toneOfSeverity } from "../parts/tones.ts";
import type { FileChange } from "./diff-view.tsx";

interface FileTreeProps {
  readonly files: readonly FileChange[];
  readonly findings: readonly ApiType<"GateFinding">[];
  isViewed(file: FileChange): boolean;
}

/** The changed files by folder. */
export function FileTree({ files, findings, isViewed }: FileTreeProps) {
  const folders = new Map<string, FileChange[]>();
  for (const file of files) {
    const at = file.name.lastIndexOf("/");
    const folder = at < 0 ? "" : file.name.slice(0, at);
    folders.set(folder, [...(folders.get(folder) ?? []), file]);
  }
  return (
    <ul className="tree small">
      {[...folders].map(([folder, members]) => (
        <li key={folder}>
          {folder !== "" && <div className="tree-folder mono tiny faint clip">{folder}/</div>}
          <ul>
            {members.map((file) => {
              const worst = findings.find((finding) => finding.file === file.name);
              return (
                <li key={file.name}>
                  <button
                    type="button"
                    className="tree-file row"
                    data-viewed={isViewed(file) || undefined}
                    onClick={() => document.getElementById(file.name)?.scrollIntoView()}
                  >
                    <Icon name={isViewed(file) ? "check" : "file"} size={14} />
                    <span className="clip grow">{file.name.slice(file.name.lastIndexOf("/") + 1)}</span>
                    {worst !== undefined && (
                      <span className="row" data-tone={toneOfSeverity(worst.severity)} title={worst.message}>
                        <span className="dot" />
                        <span className="hidden">has findings</span>
                      </span>
                    )}
                    {file.type === "new" && <span className="added tiny">new</span>}
                    {file.type === "deleted" && <span className="removed tiny">gone</span>}
                  </button>
                </li>
              );
            })}
          </ul>
        </li>
      ))}
    </ul>
  );
}
