import { useChat } from "../chat/stream/ChatContext";
import { addressOf } from "../files/api";
import { harmless } from "../text/visible";
import type { Effect, EffectPicture, PictureSize } from "./question";

/** The pictures that a call has made, changed or deleted: each before and after the call, side by side. */
export function EffectPictures({ effect: { pictures = [], key, more } }: { effect: Effect }) {
  const { thread } = useChat();
  if (!thread || !key) return null;
  return (
    <>
      {pictures.map((picture) => (
        <div key={picture.path} className="pictures" role="group" aria-label={`Picture ${harmless(picture.path)}`}>
          <code>{harmless(picture.path)}</code>
          <div className="pair">
            <Side thread={thread} call={key} picture={picture} moment="before" />
            <Side thread={thread} call={key} picture={picture} moment="after" />
          </div>
        </div>
      ))}
      {more?.pictures && <p className="note">{more.pictures.toLocaleString("en")} more pictures are not shown here.</p>}
    </>
  );
}

interface SideProps {
  thread: string;
  call: string;
  picture: EffectPicture;
  moment: "before" | "after";
}

function Side({ thread, call, picture, moment }: SideProps) {
  const size = picture[moment];
  if (!size) return <p className="note">{moment === "before" ? "There was none before." : "It is gone."}</p>;
  return (
    <figure>
      {/* By its address, not as a blob: opened in a tab of its own, an SVG is saved, and runs nothing. */}
      <img
        className="picture"
        src={addressOf(thread, "content", { path: picture.path, view: "image", call, moment })}
        alt={`${harmless(picture.path)} ${moment} the call`}
      />
      <figcaption className="note">
        {moment}: {sizeOf(size)}
      </figcaption>
    </figure>
  );
}

function sizeOf({ bytes, pixels }: PictureSize): string {
  return [...(pixels ? [`${pixels.join(" × ")} pixels`] : []), `${bytes.toLocaleString("en")} bytes`].join(", ");
}
