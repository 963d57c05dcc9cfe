import { useEffect, useState } from "react";
import { offersFor, writeRule, type Offers } from "../api/ruleRoutes";
import { Code } from "../components/Code";
import { Alert, Loading } from "../components/Notice";
import { visible } from "../text/visible";
import { Form } from "./forms";

interface RuleFormProps {
  thread: string;
  /** Identifies the call. */
  digest: string;
  onWritten: () => void;
  onCancel: () => void;
}

/** Lets a person choose a rule that always allows a call. The text of the rule is shown before it is written. */
export function RuleForm({ thread, digest, onWritten, onCancel }: RuleFormProps) {
  const [found, setFound] = useState<Offers | null>(null);
  const [chosen, setChosen] = useState(0);
  const [problem, setProblem] = useState("");
  const [writing, setWriting] = useState(false);
  useEffect(() => {
    offersFor(thread, digest).then(setFound, (error: Error) => setProblem(error.message));
  }, [thread, digest]);
  const offer = found?.offers[chosen];
  const write = async () => {
    if (!offer || writing) return;
    setWriting(true);
    await writeRule(thread, digest, offer).then(onWritten, (error: Error) => setProblem(error.message));
    setWriting(false);
  };
  return (
    <Form
      submit={
        <button className="primary" disabled={!offer || writing}>
          Write the rule and approve
        </button>
      }
      onSubmit={() => void write()}
      onCancel={onCancel}
    >
      {problem && <Alert>{visible(problem)}</Alert>}
      {!found && !problem && <Loading />}
      {found?.reason && <p>There is no rule for this call. {visible(found.reason)}</p>}
      {found && offer && (
        <>
          <label>
            Always allow
            <select autoFocus value={chosen} onChange={(event) => setChosen(Number(event.target.value))}>
              {found.offers.map(({ label }, index) => (
                <option key={index} value={index}>
                  {visible(label)}
                </option>
              ))}
            </select>
          </label>
          <p className="note">
            “…” stands for every further word, so for all that the program does with it. To be added to {visible(found.file)}:
          </p>
          <Code code={visible(offer.rule)} label="The rule" />
        </>
      )}
    </Form>
  );
}
