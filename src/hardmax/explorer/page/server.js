// The client of the local server, if one serves the page: searches in the native engine.

const ARRAYS = { "<i4": Int32Array, "|u1": Uint8Array, "<f8": Float64Array, "<f4": Float32Array };

// Read the cells that the server sends: the length of a JSON header, the header, and arrays.
function readCells(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const found = {
    n: header.n,
    nGroups: header.nGroups,
    hasMeans: header.hasMeans,
    directions: null,
  };
  let at = 4 + length;
  for (const [name, type, size] of header.arrays) {
    found[name] = new ARRAYS[type](buffer, at, size);
    at += 8 * Math.ceil(found[name].byteLength / 8);
  }
  return { id: header.id, isComplete: header.isComplete, found };
}

export class Server {
  // `hear` receives answers of the same form as from the worker thread.
  constructor(token, hear) {
    this.isOpen = false;
    if (!token || !location.protocol.startsWith("http")) return;
    const address = `${location.protocol.replace("http", "ws")}//${location.host}/jobs?token=${encodeURIComponent(token)}`;
    this.opening = new Promise((done) => {
      this.socket = new WebSocket(address);
      this.socket.binaryType = "arraybuffer";
      this.socket.onopen = () => ((this.isOpen = true), done());
      this.socket.onclose = () => ((this.isOpen = false), done());
      this.socket.onmessage = ({ data }) => {
        hear({
          ...(typeof data === "string" ? JSON.parse(data) : readCells(data)),
          isNative: true,
        });
      };
    });
  }

  ask({ id, model, domain, depth }) {
    if (this.isOpen) this.socket.send(JSON.stringify({ id, model, domain, depth }));
  }

  certify({ id, model, domain, depth }) {
    this.socket.send(JSON.stringify({ id, model, domain, depth, kind: "certificate" }));
  }

  // Run a checkpoint that the server offers, on tokens, on a text, or on an input of its choice.
  heads({ id, name, tokens, text }) {
    if (this.isOpen) this.socket.send(JSON.stringify({ id, kind: "heads", name, tokens, text }));
  }

  cancel(id) {
    if (this.isOpen) this.socket.send(JSON.stringify({ id, kind: "cancel" }));
  }
}
