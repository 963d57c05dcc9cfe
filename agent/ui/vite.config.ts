import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const noTracing = fileURLToPath(new URL("src/no-tracing.ts", import.meta.url));

// A file's name is made from what it holds, and from nothing else: the same source gives the same bundle.
export default defineConfig({
  base: "/app/",
  plugins: [react()],
  resolve: { alias: [{ find: /^langsmith(\/.*)?$/, replacement: noTracing }] },
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1500,
    rolldownOptions: {
      onwarn(warning, warn) {
        if (warning.code !== "MODULE_LEVEL_DIRECTIVE") warn(warning);
      },
    },
  },
});
