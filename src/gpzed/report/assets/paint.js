"use strict";
/**
 * Draws what moves with the slider on a canvas over a figure of plotly.js, in its axes, until plotly.js itself has caught up.
 *
 * plotly.js lays out axes, labels and margins each time it draws, a tenth of a second or so for each figure. A canvas takes a
 * millisecond. Known are the traces that the page has: lines, steps, areas down to zero, points, error bars, bars, cells.
 */
const Painter = (() => {
  const rgb = (text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));

  /** 256 colours (r, g, b each) of a colour scale of stops [position, "#rrggbb"]. */
  const palette = (stops) => {
    const table = new Uint8ClampedArray(768);
    for (let i = 0; i < 256; i++) {
      const at = i / 255, upper = Math.max(1, stops.findIndex(([p]) => p >= at));
      const [p0, c0] = stops[upper - 1], [p1, c1] = stops[upper], t = (at - p0) / (p1 - p0), a = rgb(c0), b = rgb(c1);
      for (let k = 0; k < 3; k++) table[3 * i + k] = a[k] + t * (b[k] - a[k]);
    }
    return table;
  };
  const shade = (value, low, high) => Math.max(0, Math.min(255, Math.round(255 * (value - low) / (high - low))));

  const drawCells = (pen, trace, X, Y) => {
    const { side, x, y, values, low, high, table } = trace.cells;
    const sheet = document.createElement("canvas");
    sheet.width = sheet.height = side;
    const ink = sheet.getContext("2d"), image = ink.createImageData(side, side);
    for (let r = 0, cell = 0; r < side; r++) {
      for (let c = 0; c < side; c++, cell++) {
        const value = values(cell);
        if (value === null) continue;
        const to = 4 * ((side - 1 - r) * side + c), from = 3 * shade(value, low, high);
        for (let k = 0; k < 3; k++) image.data[to + k] = table[from + k];
        image.data[to + 3] = 255;
      }
    }
    ink.putImageData(image, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(sheet, X(x[0]), Y(y[1]), X(x[1]) - X(x[0]), Y(y[0]) - Y(y[1]));
  };

  const path = (pen, trace, X, Y) => {
    const steps = trace.line?.shape === "hvh";
    let lastX, lastY;
    trace.x.forEach((v, i) => {
      if (trace.y[i] === null) return;
      const px = X(v), py = Y(trace.y[i]);
      if (lastX === undefined) pen.moveTo(px, py);
      else if (steps) { const half = (lastX + px) / 2; pen.lineTo(half, lastY); pen.lineTo(half, py); pen.lineTo(px, py); }
      else pen.lineTo(px, py);
      lastX = px; lastY = py;
    });
    return lastX;
  };

  const drawLines = (pen, trace, X, Y) => {
    if (trace.fill === "tozeroy") {
      pen.beginPath();
      const end = path(pen, trace, X, Y);
      pen.lineTo(end, Y(0)); pen.lineTo(X(trace.x[0]), Y(0));
      pen.fillStyle = trace.fillcolor;
      pen.fill();
    }
    if (!trace.line?.width) return;
    pen.beginPath();
    path(pen, trace, X, Y);
    pen.strokeStyle = trace.line.color; pen.lineWidth = trace.line.width;
    pen.setLineDash({ dot: [2, 3], dash: [6, 5] }[trace.line.dash] ?? []);
    pen.stroke();
    pen.setLineDash([]);
  };

  const drawPoints = (pen, trace, X, Y) => {
    const marker = trace.marker, size = marker.size, colours = Array.isArray(marker.color) ? marker : null;
    pen.globalAlpha = marker.opacity ?? 1;
    pen.fillStyle = colours ? "" : marker.color ?? trace.line.color;
    trace.x.forEach((v, i) => {
      if (colours) {
        const from = 3 * shade(marker.color[i], marker.cmin, marker.cmax);
        pen.fillStyle = `rgb(${trace.table.subarray(from, from + 3).join()})`;
      }
      pen.beginPath(); pen.arc(X(v), Y(trace.y[i]), size / 2, 0, 2 * Math.PI); pen.fill();
    });
    pen.globalAlpha = 1;
  };

  const drawErrors = (pen, trace, X, Y) => {
    const { array, color, thickness, width } = trace.error_y;
    pen.beginPath();
    array.forEach((error, i) => {
      const x = X(trace.x[i]), ends = [Y(trace.y[i] - error), Y(trace.y[i] + error)];
      pen.moveTo(x, ends[0]); pen.lineTo(x, ends[1]);
      for (const y of ends) { pen.moveTo(x - width, y); pen.lineTo(x + width, y); }
    });
    pen.strokeStyle = color; pen.lineWidth = thickness;
    pen.stroke();
  };

  const drawBars = (pen, trace, X, Y) => {
    pen.fillStyle = trace.marker.color; pen.strokeStyle = trace.marker.line.color; pen.lineWidth = trace.marker.line.width;
    trace.x.forEach((v, i) => {
      const left = X(v - trace.width / 2), top = Y(trace.y[i]), box = [left, top, X(v + trace.width / 2) - left, Y(0) - top];
      pen.fillRect(...box); pen.strokeRect(...box);
    });
  };

  const drawShape = (pen, shape, X, Y, height) => {
    const y = [shape.y0, shape.y1].map((v) => shape.yref === "paper" ? height * (1 - v) : Y(v)), x = [X(shape.x0), X(shape.x1)];
    if (shape.type === "rect") {
      pen.fillStyle = shape.fillcolor;
      pen.fillRect(x[0], y[1], x[1] - x[0], y[0] - y[1]);
    } else {
      drawLines(pen, { x: [shape.x0, shape.x1], y, line: shape.line }, X, (v) => v);
    }
  };

  const sheetOf = (plot) => {
    let sheet = plot.querySelector("canvas.moving");
    if (!sheet) {
      sheet = document.createElement("canvas");
      sheet.className = "moving";
      plot.append(sheet);
    }
    return sheet;
  };

  /** Draw traces and shapes over a figure in the place of its own. */
  const paint = (plot, traces, shapes = []) => {
    const { xaxis, yaxis } = plot._fullLayout, sheet = sheetOf(plot), sharp = window.devicePixelRatio || 1;
    const [width, height] = [xaxis._length, yaxis._length];
    sheet.width = Math.round(width * sharp); sheet.height = Math.round(height * sharp);
    Object.assign(sheet.style, { left: `${xaxis._offset}px`, top: `${yaxis._offset}px`, width: `${width}px`, height: `${height}px` });
    const pen = sheet.getContext("2d"), X = (v) => xaxis.l2p(v), Y = (v) => yaxis.l2p(v);
    pen.scale(sharp, sharp);
    for (const trace of traces) {
      if (trace.cells) drawCells(pen, trace, X, Y);
      else if (trace.type === "bar") drawBars(pen, trace, X, Y);
      else {
        if (trace.error_y) drawErrors(pen, trace, X, Y);
        if (trace.mode.includes("lines")) drawLines(pen, trace, X, Y);
        if (trace.mode.includes("markers")) drawPoints(pen, trace, X, Y);
      }
    }
    for (const shape of shapes) drawShape(pen, shape, X, Y, height);
    plot.classList.add("moving");
  };

  /** Show the figure's own traces again. */
  const clear = (plot) => {
    plot.classList.remove("moving");
    plot.querySelector("canvas.moving")?.remove();
  };

  return { paint, clear, palette };
})();
