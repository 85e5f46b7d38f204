import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { PageHead } from "../parts/page-head.tsx";

interface PartHeadProps {
  readonly buildId: string;
  readonly project: string;
  /** The part of the build that the page shows, such as `Plan`. */
  readonly part: string;
  readonly children?: ReactNode;
}

/** The head of a page about a part of a build, with the way back to the build. */
export function PartHead({ buildId, project, part, children }: PartHeadProps) {
  return (
    <PageHead
      page={`${part} of ${project}`}
      title={
        <span className="part-head">
          <Link to="/builds/$id" params={{ id: buildId }} className="plain soft clip">
            {project}
          </Link>
          <span>
            <span className="faint">/</span> {part}
          </span>
        </span>
      }
    >
      {children}
    </PageHead>
  );
}
