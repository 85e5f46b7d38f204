import { File } from "@pierre/diffs/react";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, dataOf } from "../api/request.ts";
import { CopyButton } from "../parts/copy-button.tsx";
import { languageOf } from "../parts/languages.ts";
import { sizeText } from "../parts/sizes.ts";
import { Empty, Shown } from "../parts/states.tsx";
import { useTheme } from "../shell/theme.ts";

/** A larger text is downloaded, not shown. */
const maxShownBytes = 1024 * 1024;
const images: Readonly<Record<string, string>> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
};

interface FileShownProps {
  readonly projectId: string;
  readonly path: string;
}

/** One file: its text with syntax colours, or its image; any other can be downloaded. */
export function FileShown({ projectId, path }: FileShownProps) {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const file = useQuery({
    queryKey: ["files", projectId, path],
    queryFn: async ({ signal }) => {
      const params = { path: { id: projectId, path } };
      const bytes = await dataOf(api.GET("/api/v1/projects/{id}/files/{path}", { params, parseAs: "blob", signal }));
      const type = images[name.slice(name.lastIndexOf(".") + 1).toLowerCase()];
      if (type === undefined) return { bytes, text: await textOf(bytes), image: null };
      return { bytes, text: null, image: await dataUrl(new Blob([bytes], { type })) };
    },
  });
  return (
    <Shown query={file} what={name}>
      {({ bytes, text, image }) => (
        <section className="card file-shown" aria-label={path}>
          <header className="file-head row">
            <span className="mono small clip grow" title={path}>
              {path}
            </span>
            <span className="tiny faint num">{sizeText(bytes.size)}</span>
            {text !== null && <CopyButton text={text} label="Copy" />}
            <button type="button" className="button" onClick={() => download(bytes, name)}>
              Download
            </button>
          </header>
          {image !== null ? <img src={image} alt={name} /> : <Content name={name} size={bytes.size} text={text} />}
        </section>
      )}
    </Shown>
  );
}

/** The bytes as text; null if they are not text, or too many to show. */
async function textOf(bytes: Blob): Promise<string | null> {
  if (bytes.size > maxShownBytes) return null;
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await bytes.arrayBuffer());
    return text.includes("\0") ? null : text;
  } catch {
    return null; // Not UTF-8.
  }
}

function download(bytes: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(bytes);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The page's policy allows pictures in `data:` addresses, but no others. */
function dataUrl(bytes: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(bytes);
  });
}

interface ContentProps {
  readonly name: string;
  readonly size: number;
  readonly text: string | null;
}

function Content({ name, size, text }: ContentProps) {
  const themeType = useTheme();
  const file = useMemo(() => ({ name, contents: text ?? "", lang: languageOf(name) }), [name, text]);
  if (text === null)
    return <Empty title={size > maxShownBytes ? "This file is too large to show here." : "This file is not text."} />;
  if (text === "") return <Empty title="This file is empty." />;
  return (
    <File
      file={file}
      disableWorkerPool
      options={{
        theme: { dark: "pierre-dark", light: "github-light-high-contrast" },
        themeType,
        disableFileHeader: true,
        overflow: "wrap",
        tokenizeMaxLineLength: 2_000,
      }}
    />
  );
}
