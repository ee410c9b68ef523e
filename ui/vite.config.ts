import { defineConfig } from "vite";

// Where a server runs that `./dev ui --watch` passes requests of the page on to.
const environment = (globalThis as unknown as { process: { env: Record<string, string | undefined> } }).process.env;
const server = environment["OMNIGRAPH_SERVER"] ?? "http://127.0.0.1:8080";

export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../src/omnigraph/explorer/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    // An inlined file would be a `data:` address, which the policy of the page refuses for scripts.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1000,
  },
  worker: { format: "es" },
  server: { proxy: { "/graphs": server, "/healthz": server, "/ui/session": server } },
});
