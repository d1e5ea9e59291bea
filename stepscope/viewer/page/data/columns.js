/**
 * Columns of numbers on the wire: a little-endian uint32 with the length of a JSON header, the header, zeros up to a
 * multiple of 8, then the arrays, each padded to a multiple of 8.
 *
 * @typedef {Float64Array | Float32Array | Int32Array | Uint32Array | Uint8Array} Column
 * @typedef {{meta: Record<string, any>, columns: Record<string, Column>, shapes: Record<string, number[]>}} Columns
 */

const KINDS = { float64: Float64Array, float32: Float32Array, int32: Int32Array, uint32: Uint32Array, uint8: Uint8Array };

/** @param {number} size */
const padded = (size) => Math.ceil(size / 8) * 8;

/**
 * Decodes columns; the arrays are views of the buffer.
 * @param {ArrayBuffer} buffer
 * @returns {Columns}
 */
export function decodeColumns(buffer) {
  if (buffer.byteLength < 4) throw new Error(`columns of ${buffer.byteLength} bytes: expected a header`);
  const length = new DataView(buffer).getUint32(0, true);
  if (4 + length > buffer.byteLength) throw new Error(`columns are cut off: the header has ${length} bytes`);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  /** @type {Columns} */
  const decoded = { meta: header.meta, columns: {}, shapes: {} };
  let offset = padded(4 + length);
  for (const { name, dtype, shape } of header.columns) {
    const Kind = KINDS[/** @type {keyof typeof KINDS} */ (dtype)];
    if (!Kind) throw new Error(`column ${name} has dtype ${dtype}: expected ${Object.keys(KINDS).join(", ")}`);
    const count = shape.reduce((/** @type {number} */ all, /** @type {number} */ size) => all * size, 1);
    const bytes = count * Kind.BYTES_PER_ELEMENT;
    if (offset + bytes > buffer.byteLength) throw new Error(`columns are cut off in ${name}`);
    decoded.columns[name] = new Kind(buffer, offset, count);
    decoded.shapes[name] = shape;
    offset += padded(bytes);
  }
  return decoded;
}

/**
 * A number of a JSON answer, which has NaN and infinities as strings.
 * @param {number | string | null | undefined} value
 * @returns {number | null}
 */
export function jsonNumber(value) {
  return value === null || value === undefined ? null : Number(value);
}
