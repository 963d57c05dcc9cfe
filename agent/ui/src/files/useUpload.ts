import { useState } from "react";
import type { PageConfig } from "../api/config";
import { RequestFailed } from "../api/http";
import { harmless } from "../text/visible";
import { upload } from "./api";
import { below, WORKSPACE } from "./names";

interface Upload {
  name: string;
  state: "sending" | "sent" | "failed";
  /** The error, or the path of the uploaded file. */
  message: string;
}

/** Uploads files to a folder of the workspace, one after the other. `uploaded` is the last uploaded file. */
export function useUpload(config: PageConfig, needThread: () => Promise<string>) {
  const [uploads, setUploads] = useState<readonly Upload[]>([]);
  const [uploaded, setUploaded] = useState<{ path: string } | null>(null);

  const send = async (files: readonly File[], folder: string | null) => {
    setUploads(files.map((file) => ({ name: harmless(file.name), state: "sending", message: "sending …" })));
    for (const [index, file] of files.entries()) {
      const outcome = await uploadOne(file, folder).then(
        (path) => ({ state: "sent", message: `is in ${path}` }) as const,
        (error: Error) => ({ state: "failed", message: error.message }) as const,
      );
      setUploads((before) => before.map((each, at) => (at === index ? { ...each, ...outcome } : each)));
    }
  };
  const uploadOne = async (file: File, chosen: string | null): Promise<string> => {
    if (file.size > config.upload_bytes) {
      const mebibytes = (bytes: number, digits: number) => `${(bytes / 2 ** 20).toFixed(digits)} MiB`;
      const [size, limit] = [mebibytes(file.size, 1), mebibytes(config.upload_bytes, config.upload_bytes % 2 ** 20 ? 1 : 0)];
      throw new Error(`has ${size}. The limit is ${limit}, the setting HTTP_MAX_BODY.`);
    }
    // Agents look for input in data. Threads with their own workspace may only read that folder.
    const folder = chosen ?? (config.sandbox_scope === "shared" ? `${WORKSPACE}/data` : WORKSPACE);
    const thread = await needThread();
    const path = below(folder, file.name);
    const made = await upload(thread, path, file, false).catch((error: unknown) => {
      const exists = error instanceof RequestFailed && error.status === 409;
      if (!exists) throw error;
      if (!confirm(`The folder ${folder} already has a file “${harmless(file.name)}”. Replace the file?`)) {
        throw new Error("was not replaced.");
      }
      return upload(thread, path, file, true);
    });
    setUploaded(made);
    return made.path;
  };
  return { uploads, uploaded, send };
}
