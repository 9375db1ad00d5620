// A thread beside the page: searches in slices, so that a newer question replaces an older one.
import { countRegions } from "./counting.js";
import { Engine, Search, readDomain } from "./engine.js";
import { networkOf, truncated } from "./models.js";

const MOST_CELLS = 400000;

// Answer { id, model, domain, depth } with the cells, then with the counts of regions and maps.
export function serve(scope) {
  let loading = null,
    latest = null;
  const pause = new MessageChannel();
  let resume = null;
  pause.port1.onmessage = () => resume?.();
  const rest = () => new Promise((done) => ((resume = done), pause.port2.postMessage(0)));

  async function answer(question) {
    const { id, model, domain, depth, found: known } = question,
      engine = await loading,
      began = performance.now();
    const network = truncated(networkOf(model), depth),
      where = readDomain(domain);
    if (known) {
      scope.postMessage({ id, counts: countRegions(engine, network, where, known) });
      return;
    }
    const search = new Search(engine, network, where);
    while (!search.run(12, MOST_CELLS)) {
      if (search.counted().cells >= MOST_CELLS) break;
      await rest();
      if (latest !== question) return;
      if (performance.now() - began > 200)
        scope.postMessage({ id, progress: search.counted().cells });
    }
    const found = search.found(),
      isComplete = found.n < MOST_CELLS;
    scope.postMessage({ id, found, isComplete, nExact: search.nExact });
    if (!isComplete) return;
    // Regions and maps can wait until nothing newer is asked.
    for (let i = 0; i < 4; i++) await rest();
    if (latest !== question) return;
    scope.postMessage({ id, counts: countRegions(engine, network, where, found) });
  }

  scope.onmessage = async ({ data }) => {
    if (data.engine) {
      loading = Engine.load(data.engine);
      return;
    }
    latest = data;
    if (data.kind === "cancel") return;
    try {
      await answer(data);
    } catch (error) {
      scope.postMessage({ id: data.id, error: String(error.message ?? error) });
    }
  };
}
