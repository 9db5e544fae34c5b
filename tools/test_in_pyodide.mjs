// Starts pyodide and runs pytest in it: see test_playground.py, which calls this.
//
// node tools/test_in_pyodide.mjs PYODIDE INSTALLED TREE TESTS...
//
// PYODIDE: its folder. INSTALLED: pytest and what it needs, as wheels for pyodide. TREE:
// the Python files of the page. TESTS: what pytest is told, from the folder above tools/.
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const [pyodide, installed, tree, ...given] = process.argv.slice(2);
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { loadPyodide } = await import(pathToFileURL(resolve(pyodide, "pyodide.mjs")));
const python = await loadPyodide({ indexURL: resolve(pyodide) });
for (const [place, folder] of [["/checkout", root], ["/installed", resolve(installed)]]) {
  python.FS.mkdirTree(place);
  python.mountNodeFS(place, folder);
}
python.FS.writeFile("/tree.zip", readFileSync(tree));
python.globals.set("given", python.toPy(given));
process.exitCode = await python.runPythonAsync(`
import os, shutil, sys, zipfile
zipfile.ZipFile("/tree.zip").extractall("/tree")
os.makedirs("/copy")
shutil.copytree("/checkout/tests", "/copy/tests")
shutil.copytree("/checkout/figures/data", "/copy/figures/data")
sys.path[:0] = ["/tree", "/installed", "/copy/tests"]
sys.path.append("/checkout")  # what the tests need, and the page does not
sys.dont_write_bytecode = True
os.chdir("/copy")
import pytest
import minipaged, minipaged.lab
minipaged.__path__.append("/checkout/minipaged")
minipaged.lab.__path__.append("/checkout/minipaged/lab")

class Absent:
    """Who asks for one of these is skipped."""

    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "numpy", "transformers", "matplotlib", "tokenizers"):
            pytest.skip(f"needs {name}", allow_module_level=True)

class Skips:
    """So is who starts a process, or asks ipywidgets for what is its own."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        try:
            return (yield)
        except OSError as error:
            if "does not support processes" not in str(error):
                raise
            pytest.skip("needs a second process")
        except AttributeError as error:
            if error.name not in ("_handle_custom_msg", "_model_module"):
                raise
            pytest.skip("needs the real ipywidgets")

sys.meta_path.insert(0, Absent())
options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "--noconftest"]
int(pytest.main([*options, "-rs", *given], plugins=[Skips()]))
`);
