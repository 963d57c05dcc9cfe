import { useCallback, useEffect, useState } from "react";
import { listGrants, revokeGrant, type Grant } from "../api/grants";
import type { RequestFailed } from "../api/http";
import { Code } from "../chat/Code";
import { Icon } from "../chat/Icon";

interface GrantsProps {
  thread: string;
  /** Changes when there may be others. */
  news: unknown;
}

/** What is approved for the rest of the thread, each to be taken back. Nothing where nothing is. */
export function Grants({ thread, news }: GrantsProps) {
  const [grants, setGrants] = useState<Grant[]>([]);
  const [problem, setProblem] = useState("");
  const [failed, setFailed] = useState("");
  const load = useCallback(() => {
    listGrants(thread).then(
      (found) => {
        setGrants(found);
        setFailed("");
      },
      // A thread that nothing was said in yet has none.
      (error: RequestFailed) => error.status !== 404 && setFailed(error.message),
    );
  }, [thread]);
  useEffect(load, [load, news]);
  const revoke = async (id: string) => {
    setProblem("");
    try {
      await revokeGrant(thread, id);
    } catch (error) {
      setProblem((error as Error).message);
    }
    load();
  };
  if (failed) return <p className="note">What is approved for this chat could not be read. {failed}</p>;
  if (grants.length === 0) return null;
  return (
    <details className="grants">
      <summary>
        <Icon name="shield" />
        {grants.length === 1 ? "1 thing is" : `${grants.length} things are`} approved for this chat
        <Icon name="chevron" />
      </summary>
      {problem && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      <ul>
        {grants.map((grant) => (
          <li key={grant.id}>
            <div>
              {grant.digest === null ? (
                <p>
                  Every call of <code>{grant.tool}</code>
                </p>
              ) : (
                <Code code={grant.shown} label="Exactly this call" />
              )}
            </div>
            <button type="button" onClick={() => void revoke(grant.id)}>
              Take back
            </button>
          </li>
        ))}
      </ul>
    </details>
  );
}
