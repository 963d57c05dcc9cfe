import { useEffect, useState } from "react";
import { useChat } from "../stream/ChatContext";
import { imageUrl, placeOf } from "./images";

interface PictureProps {
  path: string;
  alt: string;
  thread: string | null;
  /** The id of the message that names the image. */
  version: string;
  /** Shown below the image. */
  caption?: string;
  /** Shown if there is no such image. */
  instead?: string;
}

/** An image of the workspace. A message may name an image that does not exist, which the page does not request. */
export function Picture({ path, alt, thread, version, caption, instead }: PictureProps) {
  const exists = useExists(path);
  const [failed, setFailed] = useState(false);
  const [tries, setTries] = useState(0);
  const url = thread && imageUrl(path, thread, tries ? `${version}.${tries}` : version);
  if (!url || !exists) return instead && <span className="note">{instead}</span>;
  const again = () => {
    setTries(tries + 1);
    setFailed(false);
  };
  const image = failed ? (
    <span className="note">
      The picture could not be loaded.{" "}
      <button type="button" onClick={again}>
        Try again
      </button>
    </span>
  ) : (
    <img className="picture box" src={url} alt={alt} loading="lazy" onError={() => setFailed(true)} />
  );
  if (!caption) return image;
  return (
    <figure>
      {image}
      <figcaption>{caption}</figcaption>
    </figure>
  );
}

/** Whether an image exists. An image that did not exist is looked up again when files may have changed. */
function useExists(path: string): boolean {
  const { listings } = useChat();
  const [exists, setExists] = useState(false);
  const place = placeOf(path);
  useEffect(() => {
    if (exists || !listings || !place) return;
    let ended = false;
    // If the folder cannot be listed, the request of the image fails too, and the person can try again.
    listings.has(place).then((found) => !ended && setExists(found), () => !ended && setExists(true));
    return () => {
      ended = true;
    };
  }, [listings, place, exists]);
  return exists;
}
