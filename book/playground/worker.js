// Python, in a worker: the page stays alive while it computes. All files that pyodide
// would fetch have come with the page: packed, as text.
const files = {};
const unpack = async (text) => {
  const packed = await realFetch(`data:application/gzip;base64,${text}`);
  return packed.body.pipeThrough(new DecompressionStream("gzip"));
};
const realFetch = self.fetch;
const KIND = { wasm: "application/wasm", mjs: "text/javascript", zip: "application/zip" };
self.fetch = async (address) => {
  const name = String(address).split("/").pop();
  if (!(name in files)) throw new Error(`${name} is not in this page`);
  const headers = { "Content-Type": KIND[name.split(".").pop()] };
  return new Response(await unpack(files[name]), { headers });
};
const load = async (name) => {
  const code = await (await self.fetch(name)).blob();
  return import(URL.createObjectURL(new Blob([code], { type: KIND.mjs })));
};

let live = null;
async function start(packed) {
  Object.assign(files, packed);
  const [{ loadPyodide }, { default: createPyodideModule }, tree] = await Promise.all([
    load("pyodide.mjs"), load("pyodide.asm.mjs"),
    self.fetch("tree.zip").then((response) => response.arrayBuffer()),
  ]);
  const python = await loadPyodide({
    createPyodideModule, indexURL: "https://this.page/", lockFileContents: /* LOCK */,
  });
  python.unpackArchive(tree, "zip", { extractDir: "/tree" });
  python.runPython("import sys; sys.path.insert(0, '/tree')");
  live = python.runPython("from book.playground.live import Live; Live()");
}
function answer({ event, id, value }) {
  if (event === "open") {
    const html = live.open(value);
    return { html, news: live.news() };
  }
  if (event === "go on") live.go_on();
  else live.hear(id, event, value);
  return { news: live.news() };
}
self.onmessage = async ({ data }) => {
  try {
    if (data.packed) {
      await start(data.packed);
      self.postMessage({ ready: true });
    } else {
      self.postMessage(answer(data));
    }
  } catch (error) {
    self.postMessage({ error: String(error.message ?? error) });
  }
};
