"use strict";
/** Reads what gpzed/report/pack.py packed: gzipped text, whole numbers of any size, and numbers in two or four bytes. */
const Packed = (() => {
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const aligned = (text) => bytes(text).buffer;

  const inflate = async (text) => {
    const stream = new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };

  /** A function that returns the next whole number. */
  const varints = (text) => {
    const data = bytes(text);
    let at = 0;
    return () => {
      let value = 0, scale = 1, byte;
      do { byte = data[at++]; value += (byte & 127) * scale; scale *= 128; } while (byte & 128);
      return value;
    };
  };
  const counts = (text, n) => { const next = varints(text); return Float64Array.from({ length: n }, next); };
  const floats = (text) => Float64Array.from(new Float32Array(aligned(text)));
  /** Numbers in two bytes each between low (0) and high (top); beyond top there is none. */
  const shorts = (text, [low, high], top = 65535) =>
    Array.from(new Uint16Array(aligned(text)), (v) => v > top ? null : low + v * (high - low) / top);

  /** Objects of each position, as cells: lists that the numbers of `text` hold as differences. */
  const cells = (text, groups) => {
    const next = varints(text);
    return Array.from({ length: groups }, () => {
      const group = new Uint32Array(next());
      for (let i = 0, cell = 0; i < group.length; i++) group[i] = cell += next();
      return group;
    });
  };

  /** Turn rows of some width, one for each position, into sums over all positions so far. */
  const accumulate = (values, width) => { for (let i = width; i < values.length; i++) values[i] += values[i - width]; return values; };

  /** Densities of objects: a list of Gaussians {weight, mean, std} each, or values on a grid. */
  const densities = (stored, n) => {
    if (stored.grid) {
      const width = stored.grid.length, values = shorts(stored.values, [0, 1]);
      return Array.from({ length: n }, (_, i) => ({ x: stored.grid, y: values.slice(i * width, (i + 1) * width).map((v) => v * stored.top[i]) }));
    }
    const [weight, mean, log] = stored.parts.map((text, i) => shorts(text, stored.ranges[i])), next = varints(stored.sizes);
    let at = 0;
    return Array.from({ length: n }, () => ({ lower: stored.lower, gaussians: Array.from({ length: next() }, () => {
      const one = { weight: weight[at], mean: mean[at], std: Math.exp(log[at]) };
      at++;
      return one;
    }) }));
  };

  return { inflate, counts, floats, shorts, cells, accumulate, densities };
})();
