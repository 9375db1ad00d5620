// The page inside a notebook: a sandboxed frame, and the state that the page and Python share.
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts allow-downloads");
  frame.style.cssText = "width:100%;height:640px;border:1px solid #8884;border-radius:8px";
  frame.srcdoc = model.get("page");
  const hear = (event) => {
    if (event.source !== frame.contentWindow || typeof event.data?.hardmax !== "string") return;
    model.set("state", JSON.parse(event.data.hardmax));
    model.save_changes();
  };
  const tell = () =>
    frame.contentWindow?.postMessage({ hardmax: JSON.stringify(model.get("state")) }, "*");
  addEventListener("message", hear);
  model.on("change:state", tell);
  el.append(frame);
  return () => {
    removeEventListener("message", hear);
    model.off("change:state", tell);
  };
}

export default { render };
