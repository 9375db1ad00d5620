// Pens that draw the same picture on a canvas, as SVG and as PDF. Points are in pixels, with y downwards.

export class CanvasPen {
  constructor(context) {
    this.context = context;
  }

  trace(points, isClosed) {
    const { context } = this;
    context.beginPath();
    for (let i = 0; i < points.length; i += 2) {
      if (i === 0) context.moveTo(points[0], points[1]);
      else context.lineTo(points[i], points[i + 1]);
    }
    if (isClosed) context.closePath();
  }

  polygon(points, { fill, stroke, width = 1, dash = [] }) {
    this.trace(points, true);
    this.ink(fill, stroke, width, dash);
  }

  line(points, { stroke, width = 1, dash = [] }) {
    this.trace(points, false);
    this.ink(null, stroke, width, dash);
  }

  // Many segments at once: x, y, u, v, ...
  segments(ends, { stroke, width = 1 }) {
    const { context } = this;
    context.beginPath();
    for (let i = 0; i < ends.length; i += 4)
      (context.moveTo(ends[i], ends[i + 1]), context.lineTo(ends[i + 2], ends[i + 3]));
    Object.assign(context, { strokeStyle: stroke, lineWidth: width, lineCap: "butt" });
    context.setLineDash([]);
    context.stroke();
  }

  circle(x, y, radius, { fill, stroke, width = 1, dash = [] }) {
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.ink(fill, stroke, width, dash);
  }

  ink(fill, stroke, width, dash) {
    const { context } = this;
    if (fill) ((context.fillStyle = fill), context.fill());
    if (!stroke) return;
    Object.assign(context, {
      strokeStyle: stroke,
      lineWidth: width,
      lineJoin: "round",
      lineCap: "round",
    });
    context.setLineDash(dash);
    context.stroke();
  }

  text(x, y, words, { fill, size = 12, align = "left", weight = 400 }) {
    const { context } = this;
    Object.assign(context, {
      fillStyle: fill,
      textAlign: align,
      textBaseline: "middle",
      font: `${weight} ${size}px system-ui, sans-serif`,
    });
    context.fillText(words, x, y);
  }

  image(picture, width, height) {
    this.context.imageSmoothingEnabled = true;
    this.context.imageSmoothingQuality = "high";
    this.context.drawImage(picture, 0, 0, width, height);
  }
}

const short = (x) => String(Math.round(100 * x) / 100);

export class SvgPen {
  constructor(width, height, background) {
    this.parts = [
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="system-ui, sans-serif">`,
      `<rect width="${width}" height="${height}" fill="${background}"/>`,
    ];
  }

  path(points, isClosed) {
    let d = "";
    for (let i = 0; i < points.length; i += 2)
      d += `${i ? "L" : "M"}${short(points[i])} ${short(points[i + 1])}`;
    return isClosed ? `${d}Z` : d;
  }

  style({ fill, stroke, width = 1, dash = [] }) {
    const line = stroke
      ? ` stroke="${stroke}" stroke-width="${short(width)}" stroke-linejoin="round"`
      : "";
    return ` fill="${fill ?? "none"}"${line}${dash.length ? ` stroke-dasharray="${dash}"` : ""}`;
  }

  polygon(points, style) {
    this.parts.push(`<path d="${this.path(points, true)}"${this.style(style)}/>`);
  }

  line(points, style) {
    this.parts.push(
      `<path d="${this.path(points, false)}"${this.style({ ...style, fill: null })}/>`,
    );
  }

  segments(ends, style) {
    let d = "";
    for (let i = 0; i < ends.length; i += 4) d += this.path(ends.slice(i, i + 4), false);
    if (d) this.parts.push(`<path d="${d}"${this.style(style)}/>`);
  }

  circle(x, y, radius, style) {
    this.parts.push(
      `<circle cx="${short(x)}" cy="${short(y)}" r="${short(radius)}"${this.style(style)}/>`,
    );
  }

  text(x, y, words, { fill, size = 12, align = "left", weight = 400 }) {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    const safe = words.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`);
    this.parts.push(
      `<text x="${short(x)}" y="${short(y)}" fill="${fill}" font-size="${size}" font-weight="${weight}" text-anchor="${anchor}" dominant-baseline="central">${safe}</text>`,
    );
  }

  image(picture, width, height) {
    this.parts.push(
      `<image href="${picture.toDataURL("image/png")}" width="${width}" height="${height}" preserveAspectRatio="none"/>`,
    );
  }

  finish() {
    return `${this.parts.join("\n")}\n</svg>\n`;
  }
}

// A PDF page with paths and text. A raster picture is drawn as small squares, one per pixel.
export class PdfPen {
  constructor(width, height, background) {
    Object.assign(this, { width, height, lines: [] });
    this.polygon([0, 0, width, 0, width, height, 0, height], { fill: background });
  }

  colour(text, operator) {
    const [r, g, b, alpha = 1] = numbersOf(text);
    // Blend transparent colours with white.
    const mix = (x) => short(1 - alpha * (1 - x / 255));
    this.lines.push(`${mix(r)} ${mix(g)} ${mix(b)} ${operator}`);
  }

  ink(fill, stroke, width = 1, dash = [], isClosed = true) {
    const operator = fill && stroke ? "B" : fill ? "f" : isClosed ? "s" : "S";
    const path = this.lines.pop();
    if (fill) this.colour(fill, "rg");
    if (stroke)
      (this.colour(stroke, "RG"),
        this.lines.push(`${short(width)} w [${dash.map(short).join(" ")}] 0 d 1 j`));
    this.lines.push(`${path} ${isClosed && operator !== "s" ? "h " : ""}${operator}`);
  }

  trace(points) {
    let path = "";
    for (let i = 0; i < points.length; i += 2)
      path += `${short(points[i])} ${short(this.height - points[i + 1])} ${i ? "l" : "m"} `;
    this.lines.push(path.trim());
  }

  polygon(points, { fill, stroke, width, dash }) {
    this.trace(points);
    this.ink(fill, stroke, width, dash);
  }

  line(points, { stroke, width, dash }) {
    this.trace(points);
    this.ink(null, stroke, width, dash, false);
  }

  segments(ends, { stroke, width }) {
    for (let i = 0; i < ends.length; i += 4) this.line(ends.slice(i, i + 4), { stroke, width });
  }

  circle(x, y, radius, style) {
    const points = [];
    for (let k = 0; k < 24; k++)
      points.push(
        x + radius * Math.cos((k * Math.PI) / 12),
        y + radius * Math.sin((k * Math.PI) / 12),
      );
    this.polygon(points, style);
  }

  text(x, y, words, { fill, size = 12, align = "left" }) {
    const plain = words.replace(/[^ -~]/g, "?").replace(/[\\()]/g, "\\$&");
    const at = x - { left: 0, center: 0.25, right: 0.5 }[align] * size * words.length;
    this.colour(fill, "rg");
    this.lines.push(
      `BT /F ${size} Tf ${short(at)} ${short(this.height - y - 0.35 * size)} Td (${plain}) Tj ET`,
    );
  }

  image(picture, width, height) {
    const pixels = picture.getContext("2d").getImageData(0, 0, picture.width, picture.height).data;
    const dx = width / picture.width,
      dy = height / picture.height;
    for (let j = 0; j < picture.height; j++) {
      for (let i = 0; i < picture.width; i++) {
        const at = 4 * (j * picture.width + i);
        this.colour(`rgb(${pixels[at]},${pixels[at + 1]},${pixels[at + 2]})`, "rg");
        this.lines.push(
          `${short(i * dx)} ${short(this.height - (j + 1) * dy)} ${short(dx + 0.2)} ${short(dy + 0.2)} re f`,
        );
      }
    }
  }

  finish() {
    const stream = this.lines.join("\n");
    const objects = [
      "<</Type/Catalog/Pages 2 0 R>>",
      "<</Type/Pages/Kids[3 0 R]/Count 1>>",
      `<</Type/Page/Parent 2 0 R/MediaBox[0 0 ${this.width} ${this.height}]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>`,
      `<</Length ${stream.length}>>\nstream\n${stream}\nendstream`,
      "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ];
    let file = "%PDF-1.4\n";
    const places = objects.map((object, i) => {
      const at = file.length;
      file += `${i + 1} 0 obj\n${object}\nendobj\n`;
      return `${String(at).padStart(10, "0")} 00000 n \n`;
    });
    const table = file.length;
    return `${file}xref\n0 6\n0000000000 65535 f \n${places.join("")}trailer\n<</Size 6/Root 1 0 R>>\nstartxref\n${table}\n%%EOF\n`;
  }
}

// The numbers in rgb(...) or #rrggbb.
function numbersOf(text) {
  if (text.startsWith("#")) return [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
  return text.match(/[\d.]+/g).map(Number);
}
