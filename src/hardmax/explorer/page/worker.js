// The worker thread of the page. It searches in slices, so that a newer question can replace an older one.
import { certify, networkFile } from "./certificates.js";
import { checkCertificate } from "./checker.js";
import { countRegions } from "./counting.js";
import { drawingOf } from "./drawings.js";
import { Engine, Search, readDomain } from "./engine.js";
import { networkOf, truncate } from "./models.js";

const MOST_CELLS = 400000;
const MOST_CERTIFIED = 20000;

// Answer a question { id, model, domain, depth } with the cells, then with the counts of regions and maps.
// Answer a question of kind "certificate" with a certificate and its verdict, or, if the question contains a
// certificate, with the verdict on that one.
export function serve(scope) {
  let loading = null,
    latest = null;
  const pause = new MessageChannel();
  let resume = null;
  pause.port1.onmessage = () => resume?.();
  const rest = () => new Promise((done) => ((resume = done), pause.port2.postMessage(0)));

  // Find all cells, up to a limit; null if a newer question arrived.
  async function search(question, network, where, most) {
    const began = performance.now(),
      under = new Search(await loading, network, where);
    while (!under.run(12, most)) {
      const { cells } = under.readCounts();
      if (cells >= most) break;
      await rest();
      if (latest !== question) return null;
      if (performance.now() - began > 200) scope.postMessage({ id: question.id, progress: cells });
    }
    const found = under.found();
    return { found, isComplete: found.n < most, nExact: under.nExact };
  }

  async function answer(question) {
    const { id, model, domain, depth, isDark, isLight, found: known } = question,
      network = truncate(networkOf(model), depth),
      where = readDomain(domain);
    if (known) {
      scope.postMessage({ id, counts: countRegions(await loading, network, where, known) });
      return;
    }
    const answered = await search(question, network, where, MOST_CELLS);
    if (answered === null) return;
    const { found, isComplete } = answered,
      drawing = drawingOf(found, network, isDark);
    const { boxes, walls, colours } = drawing;
    scope.postMessage({ id, ...answered, drawing }, [boxes.buffer, walls.buffer, colours.buffer]);
    if (!isComplete || isLight) return;
    // Counting regions and maps waits for newer questions.
    for (let i = 0; i < 4; i++) await rest();
    if (latest !== question) return;
    scope.postMessage({ id, counts: countRegions(await loading, network, where, found) });
  }

  async function prove(question) {
    const { id, model, domain, depth, certificate } = question,
      network = truncate(networkOf(model), depth);
    if (certificate !== undefined) {
      const file = networkFile(network);
      scope.postMessage({ id, proof: { ...checkCertificate(file, certificate), isGiven: true } });
      return;
    }
    const where = readDomain(domain),
      answered = await search(question, network, where, MOST_CERTIFIED + 1);
    if (answered === null) return;
    if (!answered.isComplete)
      throw new Error(
        `the page makes certificates for at most ${MOST_CERTIFIED} cells; use \`hardmax regions --certificate\``,
      );
    const made = certify(network, where, answered.found);
    scope.postMessage({ id, proof: { ...made, ...checkCertificate(made.model, made.text) } });
  }

  scope.onmessage = async ({ data }) => {
    if (data.engine) {
      loading = Engine.load(data.engine);
      return;
    }
    latest = data;
    if (data.kind === "cancel") return;
    try {
      await (data.kind === "certificate" ? prove(data) : answer(data));
    } catch (error) {
      scope.postMessage({ id: data.id, error: String(error.message ?? error) });
    }
  };
}
