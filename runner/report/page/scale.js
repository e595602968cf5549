// SPDX-License-Identifier: Apache-2.0
// Numbers of charts: ticks of axes, smoothing, and the mean of several lines.

function niceStep(span, n) {
    const raw = span / Math.max(1, n), unit = 10 ** Math.floor(Math.log10(raw));
    return unit * [1, 2, 2.5, 5, 10].find((k) => unit * k >= raw * 0.999);
}

function ticks(low, high, n) {
    const step = niceStep(high - low, n), first = Math.ceil(low / step - 1e-9), list = [];
    for (let k = first; k * step <= high + step * 1e-6; k++)
        list.push(Number((k * step).toPrecision(12)));
    return list;
}

// Ticks between 10^low and 10^high.
function logTicks(low, high, n) {
    if (high - low < 1) return ticks(10 ** low, 10 ** high, n).filter((y) => y > 0);
    const each = high - low < 2.5 ? [1, 2, 5] : [1], step = Math.ceil((high - low) / (2 * n)),
          list = [];
    for (let k = Math.floor(low); k <= high; k += step)
        list.push(...each.map((digit) => Number(`${digit}e${k}`)));
    return list.filter((y) => Math.log10(y) >= low && Math.log10(y) <= high);
}

// Exponential moving averages of values and bands; the first values weigh no more than others.
function smoothed(points, weight) {
    const sums = [0, 0, 0];
    let total = 0;
    return points.map(([x, ...ys]) => {
        if (!known(ys[0])) return [x, ...ys];
        total = total * weight + 1 - weight;
        return [
            x, ...ys.map((y, i) => {
                if (!known(y)) return null;
                sums[i] = sums[i] * weight + (1 - weight) * y;
                return sums[i] / total;
            })
        ];
    });
}

// -- Several lines as one ------------------------------------------------------------------------

// The value of a line at x, between its points; behind its last one that of the last.
function valueAt(points, x) {
    let low = 0, high = points.length - 1;
    if (x >= points[high][0]) return points[high][1];
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (points[middle][0] <= x)
            low = middle;
        else
            high = middle;
    }
    const [[x0, y0], [x1, y1]] = [points[low], points[high]];
    return y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
}

// The mean of lines with 1.96 standard errors to each side, at places from where all have begun to
// where the last one ends.
function meanOf(lines) {
    const begun = lines.map((points) => points.filter((p) => known(p[1])))
                      .filter((points) => points.length > 0),
          n = begun.length, places = 120;
    if (n === 0) return [];
    const from = Math.max(...begun.map((points) => points[0][0])),
          to = Math.max(...begun.map((points) => points[points.length - 1][0]));
    const count = to > from ? places : 1;
    return Array.from({length: count}, (_, i) => {
        const x = count === 1 ? from : from + ((to - from) * i) / (count - 1);
        const values = begun.map((points) => valueAt(points, x)), mean = sum(values) / n;
        const error = Math.sqrt(sum(values.map((y) => (y - mean) ** 2)) / (n * (n - 1)));
        return n === 1 ? [x, mean] : [x, mean, mean - 1.96 * error, mean + 1.96 * error];
    });
}
