import { useEffect, useState } from "react";

interface Loaded<T> {
  value: T | null;
  problem: string | null;
}

/**
 * What `load` gives, asked again whenever `key` changes; what was shown stays until then.
 * @param done is given what is no longer shown.
 */
export function useLoaded<T>(key: string, load: (signal: AbortSignal) => Promise<T>, done?: (value: T) => void): Loaded<T> {
  const [loaded, setLoaded] = useState<Loaded<T>>({ value: null, problem: null });
  useEffect(() => {
    const ended = new AbortController();
    let shown: T | null = null;
    load(ended.signal).then(
      (value) => {
        if (ended.signal.aborted) return done?.(value);
        shown = value;
        setLoaded({ value, problem: null });
      },
      (error: unknown) => {
        if (!ended.signal.aborted) setLoaded({ value: null, problem: (error as Error).message });
      },
    );
    return () => {
      ended.abort();
      if (shown !== null) done?.(shown);
    };
    // `key` says all that `load` depends on.
  }, [key]);
  return loaded;
}
