import { useCallback, useEffect, useState } from "react";
import { listGrants, revokeGrant, type Grant } from "../api/grantRoutes";
import type { RequestFailed } from "../api/http";
import { nounOf } from "./CallShown";
import { Code } from "../components/Code";
import { Icon } from "../components/Icon";
import { Alert } from "../components/Notice";

/** The approvals that hold for the rest of the thread. A person can revoke each. `refreshKey` changes when they may have. */
export function Grants({ thread, refreshKey }: { thread: string; refreshKey: unknown }) {
  const [grants, setGrants] = useState<Grant[]>([]);
  const [problem, setProblem] = useState("");
  const load = useCallback(() => {
    listGrants(thread).then(({ grants }) => setGrants(grants), ({ status, message }: RequestFailed) => {
      // A thread without any run has no grants.
      if (status !== 404) setProblem(`What is approved for this chat could not be read. ${message}`);
    });
  }, [thread]);
  useEffect(() => {
    setProblem("");
    load();
  }, [load, refreshKey]);
  const revoke = async (id: string) => {
    setProblem("");
    await revokeGrant(thread, id).catch((error: Error) => setProblem(error.message));
    load();
  };
  return (
    <>
      {problem && <Alert>{problem}</Alert>}
      {grants.length > 0 && (
        <details className="card fold grants">
          <summary className="bar">
            <Icon name="shield" />
            <span className="grow">
              {summaryOf(grants)} for this chat
            </span>
            <Icon name="chevron" />
          </summary>
          <ul>
            {grants.map((grant) => (
              <li key={grant.id} className="bar">
                <div className="grow">
                  {grant.digest !== null && <Code code={grant.shown} label="Exactly this call" />}
                  {grant.digest === null && (
                    <p>Every {nounOf(grant.tool)}</p>
                  )}
                </div>
                <button type="button" onClick={() => void revoke(grant.id)}>
                  Take back
                </button>
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

function summaryOf([first, ...others]: readonly Grant[]): string {
  if (!first || others.length > 0) return `${others.length + 1} approvals hold`;
  return `${first.digest === null ? "Every" : "1"} ${nounOf(first.tool)} is approved`;
}
