import { useState } from "react";
import { loadConfig } from "../api/config";
import { RequestFailed } from "../api/http";
import { harmless } from "../text/visible";
import { upload } from "./api";
import { below, sizeOf, WORKSPACE } from "./names";

export interface Sent {
  name: string;
  state: "sending" | "sent" | "failed";
  /** What went wrong, or where it is. */
  told: string;
}

/** Sends files into a folder of the workspace, one after the other. */
export function useUpload(needThread: () => Promise<string>, onSent: (path: string) => void) {
  const [sent, setSent] = useState<readonly Sent[]>([]);

  const send = async (files: readonly File[], folder: string | null) => {
    setSent(files.map((file) => ({ name: harmless(file.name), state: "sending", told: "sending …" })));
    for (const [index, file] of files.entries()) {
      const now = await one(file, folder).then(
        (path): Sent => ({ name: harmless(file.name), state: "sent", told: `is in ${path}` }),
        (error: unknown): Sent => ({ name: harmless(file.name), state: "failed", told: (error as Error).message }),
      );
      setSent((before) => before.map((each, at) => (at === index ? now : each)));
    }
  };
  const one = async (file: File, chosen: string | null): Promise<string> => {
    const config = await loadConfig();
    if (file.size > config.upload_bytes) {
      const most = sizeOf(config.upload_bytes);
      throw new Error(`has ${sizeOf(file.size)}; at most ${most} are taken (HTTP_MAX_BODY raises that).`);
    }
    // Where agents look for what they are given; threads with a workspace of their own may only read there.
    const folder = chosen ?? (config.sandbox_scope === "shared" ? `${WORKSPACE}/data` : WORKSPACE);
    const thread = await needThread();
    const path = below(folder, file.name);
    const made = await upload(thread, path, file, false).catch((error: unknown) => {
      const there = error instanceof RequestFailed && error.status === 409;
      if (!there || !confirm(`There is a file “${harmless(file.name)}” in ${folder} already. Replace it?`)) throw error;
      return upload(thread, path, file, true);
    });
    onSent(made.path);
    return made.path;
  };
  return { sent, send, forget: () => setSent([]) };
}

/** The files that were dropped; folders are left out, and `folders` says so. */
export function dropped(data: DataTransfer): { files: File[]; folders: boolean } {
  const items = [...data.items].filter((item) => item.kind === "file");
  const plain = items.filter((item) => !item.webkitGetAsEntry()?.isDirectory);
  const files = plain.map((item) => item.getAsFile()).filter((file) => file !== null);
  return { files, folders: plain.length < items.length };
}
