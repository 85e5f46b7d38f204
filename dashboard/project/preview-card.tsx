import { Link } from "@tanstack/react-router";
import type { ApiType } from "../../src/client/client.ts";
import { usePreview } from "../api/actions.ts";
import { ActionButton } from "../parts/action-button.tsx";
import { Icon } from "../parts/icon.tsx";
import { Failure } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";

/** The running application of the last build that has one. */
export function PreviewCard({ preview }: { readonly preview: ApiType<"Preview"> | undefined }) {
  return (
    <section className="card project-card" aria-labelledby="preview-head">
      <div className="row">
        <h2 id="preview-head" className="grow">
          Preview
        </h2>
        {preview !== undefined && <StatusBadge status={preview.status} />}
      </div>
      {preview === undefined ? (
        <p className="small soft">No build of this project has a preview right now.</p>
      ) : (
        <Controls preview={preview} />
      )}
    </section>
  );
}

function Controls({
  preview: { buildId, projectId, wave, status, reason, url },
}: {
  readonly preview: ApiType<"Preview">;
}) {
  const act = usePreview(buildId);
  const isAsleep = status === "asleep";
  return (
    <>
      <p className="small soft">
        wave {wave} of <span className="mono tiny">{buildId}</span>
        {reason !== null && <> · {reason}</>}
      </p>
      <div className="row wrap">
        {url !== null && (
          <a className="button primary" href={url} target="_blank" rel="noreferrer">
            Open <Icon name="out" size={13} />
          </a>
        )}
        <Link to="/projects/$id" params={{ id: projectId }} search={{ tab: "preview" }} className="button">
          Log
        </Link>
        <ActionButton action={act} given={isAsleep ? "start" : "stop"}>
          {isAsleep ? "Wake" : "Stop"}
        </ActionButton>
      </div>
      <Failure error={act.error} />
    </>
  );
}
