/* The loops of an evaluation: whole blocks in one call (`_blocks.h`), and what happens between two matrix products.
 *
 * Arrays over rows are stored features first: row j of a matrix holds basis function j for all n objects. Work goes
 * by strips of columns that stay in the cache. Each loop is compiled for several instruction sets and the best one is
 * chosen when the library is used. `gpzed.compiled.TWINS` says which function in NumPy does the same.
 */
#include <math.h>
#include <string.h>

#include "gpzed.h"

#define INLINE static inline __attribute__((always_inline))
#define ALIGNED __attribute__((aligned(64)))

/* e^x = 2^k e^r with x = k ln 2 + r, |r| <= ln(2)/2; e^r by a Taylor polynomial of degree 12 (truncation error 2e-16);
 * 2^k is put together from its bits. Without branches, so that compilers vectorise it. Arguments below about -708.7 give 0
 * (no subnormal numbers, which are slow and carry no information here); above 709 they give e^709; NaN stays NaN.
 */
INLINE double exp_one(double x)
{
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer in the low bits */
    double v = x < -709.0 ? -709.0 : x; /* k = -1023: the bits of 2^k are those of 0 */
    v = v > 709.0 ? 709.0 : v;
    double t = v * 1.4426950408889634 + shift;
    double k = t - shift;
    double r = (v - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10;
    /* pairs of terms first (Estrin), so that consecutive operations do not wait for each other */
    double r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
    double a0 = 1.0 + r, a2 = 0.5 + r * (1.0 / 6.0);
    double a4 = 1.0 / 24.0 + r * (1.0 / 120.0), a6 = 1.0 / 720.0 + r * (1.0 / 5040.0);
    double a8 = 1.0 / 40320.0 + r * (1.0 / 362880.0), a10 = 1.0 / 3628800.0 + r * (1.0 / 39916800.0);
    double p = (a0 + a2 * r2) + (a4 + a6 * r2) * r4 + (a8 + a10 * r2 + r4 * (1.0 / 479001600.0)) * r8;
    int64_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits = (int64_t)((uint64_t)(bits + 1023) << 52);
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

/* ln x for positive normal x: x = 2^k f, f from 2^-1/2 to 2^1/2; ln f by a polynomial in f - 1, to 2e-10. */
INLINE double log_one(double x)
{
    const int64_t to_half = 0x3ff0000000000000 - 0x3fe6a09e667f3bcd; /* bits of 1 less those of 2^-1/2 */
    const int64_t magic = 0x4330000000000000;                       /* of 2^52: small integers are added as bits */
    int64_t bits, k;
    memcpy(&bits, &x, sizeof bits);
    k = (int64_t)((uint64_t)(bits + to_half) >> 52);
    bits -= (int64_t)((uint64_t)(k - 1023) << 52);
    k |= magic;
    double f, exponent;
    memcpy(&f, &bits, sizeof f);
    memcpy(&exponent, &k, sizeof exponent);
    exponent -= 4503599627370496.0 + 1023.0;
    f -= 1.0;
    double f2 = f * f, f4 = f2 * f2;
    double a0 = 1.00000000063 - f * 0.499999996928, a2 = 0.333333015634 - f * 0.25000023634;
    double a4 = 0.200025767989 - f * 0.166680422, a6 = 0.142126075314 - f * 0.123992208574;
    double a8 = 0.11923925936 - f * 0.117272291624 + f2 * 0.0674023267442;
    return exponent * 0.6931471805599453 + f * (a0 + a2 * f2 + (a4 + a6 * f2) * f4 + a8 * f4 * f4);
}

/* The same in single precision, by a polynomial of degree 7; below -88 it is 0, above 88 e^88. */
INLINE float exp_float(float x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23 */
    float v = x < -88.0f ? -88.0f : x;
    v = v > 88.0f ? 88.0f : v;
    float t = v * 1.44269504f + shift, k = t - shift;
    float r = (v - k * 0.693359375f) + k * 2.12194440e-4f, r2 = r * r;
    float a0 = 1.0f + r, a2 = 0.5f + r * (1.0f / 6.0f);
    float a4 = 1.0f / 24.0f + r * (1.0f / 120.0f), a6 = 1.0f / 720.0f + r * (1.0f / 5040.0f);
    float p = (a0 + a2 * r2) + (a4 + a6 * r2) * (r2 * r2);
    uint32_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits = (bits + 127u) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

/* The same without numbers whose squares are subnormal, which processors are slow at: below -43.6 it is 0. */
INLINE float exp_response(float x)
{
    float value = exp_float(x);
    return x < -43.6f ? 0.0f : value;
}

/* a sigmoid(a) = a / (1 + 2^-t), t = a log2(e), within 2e-6 (1 + |a|): 2^-t by a polynomial of degree 5 whose exponent
 * is added as bits. |t| ends at 100: quotients stay normal. */
INLINE float swish_float(float a)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23 */
    float v = a * -1.44269504f;
    v = v > 100.0f ? 100.0f : v;
    v = v < -100.0f ? -100.0f : v;
    float t = v + shift, f = v - (t - shift), f2 = f * f;
    float p = (1.0f + f * 0.693147181f) + f2 * ((0.240226507f + f * 0.0555041087f) + f2 * (0.00961812911f + f * 0.00133335581f));
    uint32_t shifted, bits;
    memcpy(&shifted, &t, sizeof t);
    memcpy(&bits, &p, sizeof p);
    bits += shifted << 23;
    memcpy(&p, &bits, sizeof p);
    return a / (1.0f + p);
}

#define TILE 4
#define DEPTH 256
#define STRIP_BYTES 400000
#define PAIRS 64
#define LOG_2PI 1.8378770664093453
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define UNROLL _Pragma("GCC unroll 8")
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (four_t){__VA_ARGS__})
typedef int64_t four_t __attribute__((vector_size(32)));
#endif

enum shape { FULL, LOWER, UPPER };

/* Features of many rows, [panel][feature][row of the panel]. */
struct strip {
    double *data;
    size_t rows, stride, panels; /* features, numbers from one panel to the next */
};

/* Memory of one call, cut into arrays; each starts at a cache line. */
struct work {
    double *C;                   /* packed, see pack() */
    double *inverse, *transpose; /* packed: S^-1, or W and W' */
    struct strip Z, Psi, G;      /* of q, m + k and m features; Psi has B^1/2 below */
    double *T, *half;            /* panels of m + k features */
    double *lanes;               /* vectors of m + k partial sums */
    double *end;
};

/* Log-likelihood of a target that may be wrong, see `gp/labels.py`, from its log density if it is right. */
static double doubted(double log_density, const struct targets *c, size_t row)
{
    if (!c->wrong)
        return log_density;
    double right = log1p(-c->wrong[row]) + log_density;
    double wrong = log(c->wrong[row]) - 0.5 * (c->y[row] * c->y[row] + LOG_2PI);
    return right > wrong ? right + log1p(exp(wrong - right)) : wrong + log1p(exp(right - wrong));
}

INLINE size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
INLINE size_t larger(size_t a, size_t b) { return a > b ? a : b; }
INLINE size_t round_up(size_t rows) { return (rows + TILE - 1) / TILE * TILE; }
INLINE double *align(double *x) { return (double *)(((uintptr_t)x + 63) & ~(uintptr_t)63); }

static double *take(double **next, size_t size)
{
    double *array = align(*next);
    *next = array + size;
    return array;
}

/* Numbers from panel to panel: an odd number of cache lines, so that panels do not compete for the same places. */
static size_t panel_stride(size_t features, size_t panel) { return (((features * panel + 7) / 8) | 1) * 8; }

/* Panels per strip such that what both products of a pass need stays in the second-level cache. */
static size_t strip_panels(const struct basis *b, size_t panel)
{
    size_t bytes = (b->q + b->m + b->k) * panel * sizeof(double), most = STRIP_BYTES / bytes;
    size_t least = 60 / panel, limit = 240 / panel;
    return most < least ? least : smaller(most, limit);
}

static struct strip take_strip(double **next, size_t rows, size_t features, size_t panel, size_t panels)
{
    size_t stride = panel_stride(features, panel);
    struct strip strip = {take(next, stride * panels + TILE * panel), rows, stride, panels};
    return strip;
}

static struct work divide(const struct basis *b, double *next, size_t panel)
{
    size_t M = b->m + b->k, tiles = round_up(b->m), all_tiles = round_up(M), panels = strip_panels(b, panel);
    struct work w;
    w.C = take(&next, tiles * b->q);
    w.inverse = take(&next, all_tiles * M);
    w.transpose = take(&next, all_tiles * M);
    w.Z = take_strip(&next, b->q, b->q, panel, panels);
    w.Psi = take_strip(&next, M, M + 1, panel, panels);
    w.G = take_strip(&next, b->m, b->m, panel, panels);
    w.T = take(&next, M * panel);
    w.half = take(&next, M * panel);
    w.lanes = take(&next, M * panel);
    w.end = next;
    return w;
}

/* A (m, depth) with strides (row, column) in tiles of four rows, [tile][k][r]; rows beyond the last are 0. */
static void pack(const double *A, size_t m, size_t depth, size_t row, size_t column, double *out)
{
    for (size_t j = 0; j < m; j += TILE)
        for (size_t k = 0; k < depth; k++)
            for (size_t r = 0; r < TILE; r++)
                *out++ = j + r < m ? A[(j + r) * row + k * column] : 0.0;
}

#include "_shapes.h"

/* Memory of a call over pairs. */
struct pair_work {
    double *C, *plain, *slopes, *weights, *matrices, *linear; /* packed */
    double *Z, *a, *g, *Phi, *E, *total;                      /* panels */
    double *end;
};

static struct pair_work divide_pairs(const struct spread *c, double *next, size_t panel)
{
    const struct pairs *p = &c->pairs;
    size_t m = c->basis.m, q = c->basis.q, d = c->inputs.d, tiles = round_up(m);
    struct pair_work w;
    w.C = take(&next, tiles * q);
    w.plain = take(&next, tiles * q);
    w.slopes = take(&next, (m * p->r + TILE) * (d + 1));
    w.weights = take(&next, (p->s + TILE) * p->count);
    w.matrices = take(&next, p->s * tiles * m);
    w.linear = take(&next, p->linear ? p->s * tiles * (d + 1) : 0);
    w.Z = take(&next, q * panel);
    w.a = take(&next, m * panel);
    w.g = take(&next, m * p->r * panel);
    w.Phi = take(&next, m * panel);
    w.E = take(&next, PAIRS * panel);
    w.total = take(&next, p->s * panel);
    w.end = next;
    return w;
}

/* Memory of a call on rows with uncertainties of their own, see `_rows.h`. */
struct row_work {
    double *plain, *slopes, *weights, *matrices;                          /* packed */
    double *Z, *a, *slope, *V, *VLV, *g, *z, *Phi, *E, *det, *total;      /* panels */
    double *end;
};

static struct row_work divide_rows(const struct rows *c, double *next, size_t panel)
{
    const struct pairs *p = &c->pairs;
    size_t m = c->m, d = c->inputs.d, triangle = d * (d + 1) / 2, q = 1 + d + triangle, tiles = round_up(m);
    struct row_work w;
    w.plain = take(&next, tiles * q);
    w.slopes = take(&next, (m * d + TILE) * (d + 1));
    w.weights = take(&next, (p->s + TILE) * p->count);
    w.matrices = take(&next, p->s * tiles * m);
    w.Z = take(&next, q * panel);
    w.a = take(&next, m * panel);
    w.slope = take(&next, m * d * panel);
    w.V = take(&next, triangle * panel);
    w.VLV = take(&next, m * triangle * panel);
    w.g = take(&next, m * d * panel);
    w.z = take(&next, d * panel);
    w.Phi = take(&next, m * panel);
    w.E = take(&next, PAIRS * panel);
    w.det = take(&next, PAIRS * panel);
    w.total = take(&next, p->s * panel);
    w.end = next;
    return w;
}

/* Memory of a call over heads. */
struct head_work {
    double *C, *Theta_t, *Theta, *whiteners; /* packed */
    struct strip Z, Phi, G, H;               /* of q, m + k, m and 3 K features */
    double *T;                               /* panel of m + k features */
    double *end;
};

static struct head_work divide_heads(const struct basis *b, size_t K, size_t n_whiteners, double *next, size_t panel)
{
    size_t M = b->m + b->k, tiles = round_up(b->m), panels = strip_panels(b, panel);
    struct head_work w;
    w.C = take(&next, tiles * b->q);
    w.Theta_t = take(&next, (3 * K + TILE) * M);
    w.Theta = take(&next, tiles * 3 * K);
    w.Z = take_strip(&next, b->q, b->q, panel, panels);
    w.Phi = take_strip(&next, M, M, panel, panels);
    w.G = take_strip(&next, b->m, b->m, panel, panels);
    w.H = take_strip(&next, 3 * K, 4 * K, panel, panels);
    w.T = take(&next, M * panel);
    w.whiteners = take(&next, n_whiteners * (M + TILE) * M);
    w.end = next;
    return w;
}

/* Memory of a network: packed layers, and panels of what goes into a layer and comes out of it. */
struct network_work {
    double *layers, *from, *to, *end;
};

static struct network_work divide_network(const struct network *c, double *next, size_t panel)
{
    struct network_work w;
    w.layers = take(&next, c->n_layers * (c->widest + TILE) * (c->widest + 1));
    w.from = take(&next, (c->widest + TILE) * panel);
    w.to = take(&next, (c->widest + TILE) * panel);
    w.end = next;
    return w;
}

#define CHUNK 64 /* rows of a batch that go forward and back together: what they need stays in the cache */
#define FLOATS 16 /* units of a layer are padded with zeros to a multiple of these */

INLINE size_t padded(int64_t units) { return ((size_t)units + FLOATS - 1) / FLOATS * FLOATS; }
INLINE float *take_floats(double **next, size_t size) { return (float *)take(next, size / 2 + 1); }

/* Numbers of all layers, with padding. */
static size_t padded_size(const struct network_shape *c)
{
    size_t size = 0;
    for (size_t l = 0; l < c->n_layers; l++)
        size += ((size_t)c->units[l] + 1) * padded(c->units[l + 1]);
    return size;
}

/* Memory of a network in training: layers with padding, what Adam keeps of them, and a chunk of rows at every layer. */
struct descent_work {
    float *theta, *mean, *first, *second, *gradient; /* the last four only where it learns */
    float *transposed;                               /* layers but the first, (outputs, inputs) */
    float *hidden, *slopes;                          /* [layer][row][unit], of `step` numbers a layer */
    float *G, *other;                                /* gradients of what a layer gives */
    float *rows;                                     /* (4 + 4 K, CHUNK): targets and so on, outputs of heads */
    float *zeros;
    size_t step;
    double *end;
};

static struct descent_work divide_descent(const struct network_shape *c, int learns, double *next)
{
    size_t size = padded_size(c), widest = 0;
    struct descent_work w;
    for (size_t l = 0; l <= c->n_layers; l++)
        widest = padded(c->units[l]) > widest ? padded(c->units[l]) : widest;
    w.step = widest * CHUNK;
    w.theta = take_floats(&next, size);
    w.mean = take_floats(&next, learns ? size : 0);
    w.first = take_floats(&next, learns ? size : 0);
    w.second = take_floats(&next, learns ? size : 0);
    w.gradient = take_floats(&next, learns ? size : 0);
    w.transposed = take_floats(&next, learns ? c->n_layers * widest * widest : 0);
    w.hidden = take_floats(&next, (c->n_layers + 1) * w.step);
    w.slopes = take_floats(&next, learns ? c->n_layers * w.step : 0);
    w.G = take_floats(&next, w.step);
    w.other = take_floats(&next, w.step);
    w.rows = take_floats(&next, (4 + 4 * c->K) * CHUNK);
    w.zeros = take_floats(&next, widest);
    w.end = next;
    return w;
}

/* Layers one after the other, to or from the same with padding, which is zero. */
static void pad_layers(const struct network_shape *c, const float *plain, float *out)
{
    for (size_t l = 0; l < c->n_layers; l++) {
        size_t units = (size_t)c->units[l + 1], wide = padded(c->units[l + 1]);
        for (size_t i = 0; i <= (size_t)c->units[l]; i++, plain += units, out += wide) {
            memcpy(out, plain, units * sizeof(float));
            memset(out + units, 0, (wide - units) * sizeof(float));
        }
    }
}

static void unpad_layers(const struct network_shape *c, const float *wide_layers, float *out)
{
    for (size_t l = 0; l < c->n_layers; l++) {
        size_t units = (size_t)c->units[l + 1], wide = padded(c->units[l + 1]);
        for (size_t i = 0; i <= (size_t)c->units[l]; i++, out += units, wide_layers += wide)
            memcpy(out, wide_layers, units * sizeof(float));
    }
}

/* What a step of Adam needs. */
struct adam_step_of {
    const struct adam *adam;
    const double *schedule; /* (4) of this step */
    size_t size;
    const double *gradient;
    double *theta, *mean, *first, *second, *norm;
};

/* Memory of a density: packed coefficients, and panels of raw and whitened inputs, of their map, and of components. */
struct coverage_work {
    double *Ct, *raw, *Z, *logs, *end;
};

static struct coverage_work divide_coverage(const struct coverage *c, double *next, size_t panel)
{
    size_t d = c->inputs.d, q = 1 + d + d * (d + 1) / 2;
    struct coverage_work w;
    w.Ct = take(&next, round_up(c->g) * q);
    w.raw = take(&next, d * panel);
    w.Z = take(&next, q * panel);
    w.logs = take(&next, round_up(c->g) * panel);
    w.end = next;
    return w;
}

#define CROWD 16          /* rows that are merged side by side */
#define WINDOW 256        /* rows that are sorted by what there is to do for them; a multiple of CROWD */
#define MOST_COUNTED 127  /* components by whose number they are sorted: rows with more count as having these */

/* Memory of rows whose components are merged: these, what merging each pair costs, and what it costs anew. */
struct merge_work {
    float *slots, *costs, *fresh;
    double *variances; /* or what a cut makes of them */
    int32_t *heavy;    /* which components of a row are */
    double *end;
};

static struct merge_work divide_compact(const struct compact *c, double *next)
{
    struct merge_work w = {0};
    w.slots = take_floats(&next, 4 * (c->K + c->slots) * CROWD);
    w.variances = take(&next, c->K);
    w.heavy = (int32_t *)take_floats(&next, c->K + 1);
    w.end = next;
    return w;
}

static struct merge_work divide_merge(const struct merge *c, double *next)
{
    struct merge_work w;
    w.slots = take_floats(&next, 4 * c->K * CROWD);
    w.costs = take_floats(&next, c->K * c->K / 2 * CROWD);
    w.fresh = take_floats(&next, c->K * CROWD);
    w.variances = take(&next, 4 * c->K);
    w.heavy = (int32_t *)take_floats(&next, c->K + 1);
    w.end = next;
    return w;
}

#define ROUNDING 1e-6f /* of points, in units of the range of a density */

/* Memory of points: weights, means and deviations of sixteen rows, nodes near a cut, and redshifts, 1 / (1 + z) and slopes of
 * all nodes. */
struct point_work {
    float *mixtures, *cut, *nodes;
    double *shares, *end;
};

static struct point_work divide_points(const struct points *c, double *next)
{
    struct point_work w;
    w.mixtures = take_floats(&next, 2 * c->K * 3 * CROWD);
    w.cut = take_floats(&next, 2 * c->K * larger(c->G, c->g) * CROWD);
    w.nodes = take_floats(&next, c->K * (c->G + c->g) * 3 * CROWD);
    w.shares = take(&next, c->K);
    w.end = next;
    return w;
}

/* Memory of a committee, in single precision: what its members share. */
struct committee_work {
    float *Z, *Phi, *O;                /* panels of q, m + k and 4 K features, or of what goes into a layer */
    double *raw, *centred, *values;    /* panels of d, d and K */
    double *packed, *end;              /* then what is packed of each member */
};

/* Packed matrices of heads. */
struct packed_heads {
    float *C, *Theta, *squares;
};

static struct packed_heads divide_quick_heads(const struct quick_heads *c, double **next)
{
    size_t M = c->basis.m + c->basis.k, K = c->outputs.K;
    struct packed_heads p;
    p.C = take_floats(next, round_up(c->basis.m) * c->basis.q);
    p.Theta = take_floats(next, round_up(3 * K) * M);
    p.squares = take_floats(next, round_up(K) * M);
    return p;
}

static size_t packed_layer(const struct quick_network *c) { return (c->widest + TILE) * (c->widest + 1) + 16; }

static float *divide_quick_network(const struct quick_network *c, double **next)
{
    return take_floats(next, c->n_layers * packed_layer(c));
}

static struct committee_work divide_committee(const struct committee *c, double *next, size_t panel)
{
    size_t q = c->inputs.d + 1, M = 1, K = 1;
    struct committee_work w;
    for (size_t i = 0; i < c->n_heads; i++) {
        q = larger(q, c->heads[i].basis.q);
        M = larger(M, c->heads[i].basis.m + c->heads[i].basis.k);
        K = larger(K, c->heads[i].outputs.K);
    }
    for (size_t i = 0; i < c->n_networks; i++) {
        q = larger(q, c->networks[i].widest + 1);
        M = larger(M, c->networks[i].widest + 1);
        K = larger(K, c->networks[i].outputs.K);
    }
    w.Z = take_floats(&next, larger(q, 3 * K) * panel);
    w.Phi = take_floats(&next, larger(M, 3 * K) * panel);
    w.O = take_floats(&next, 4 * K * panel);
    w.raw = take(&next, c->inputs.d * panel);
    w.centred = take(&next, c->inputs.d * panel);
    w.values = take(&next, K * panel);
    w.packed = next;
    for (size_t i = 0; i < c->n_heads; i++)
        divide_quick_heads(c->heads + i, &next);
    for (size_t i = 0; i < c->n_networks; i++)
        divide_quick_network(c->networks + i, &next);
    w.end = next;
    return w;
}

/* As pack(), in single precision. */
static void pack_float(const double *A, size_t m, size_t depth, size_t row, size_t column, float *out)
{
    for (size_t j = 0; j < m; j += TILE)
        for (size_t k = 0; k < depth; k++)
            for (size_t r = 0; r < TILE; r++)
                *out++ = j + r < m ? (float)A[(j + r) * row + k * column] : 0.0f;
}

/* ln of the upper tail Q of the standard normal; 0 where it is 1 to the last digit. */
static double log_upper_tail(double a)
{
    if (a < -9.0)
        return 0.0;
    if (a < 30.0)
        return log(0.5 * erfc(0.7071067811865476 * a));
    double i = 1.0 / (a * a);
    return -0.5 * a * a - log(a) - 0.5 * LOG_2PI + log1p(-i * (1.0 - i * (3.0 - 15.0 * i)));
}

/* ln of the upper tail by linear interpolation, where there is a table; 0 below it. */
static double table_tail(const struct points *c, double a)
{
    double at = (a - c->first_cut) * c->cuts_per_unit;
    if (at < 0.0)
        return 0.0;
    if (!(at < (double)(c->n_cuts - 1)))
        return log_upper_tail(a);
    size_t i = (size_t)at;
    return c->log_tails[i] + (at - (double)i) * (c->log_tails[i + 1] - c->log_tails[i]);
}

/* How many of K components there are up to the last one with a weight. */
static size_t used_components(const double *weights, size_t K)
{
    while (K > 1 && weights[K - 1] == 0.0)
        K--;
    return K;
}

/* shares (K) = weights of the first K components of a row after the cut, up to a factor. Returns their sum. All are relative
 * to the largest of the tails, unless that is near 1: it may be far below the least number. */
static double point_shares(const struct points *c, size_t row, size_t K, double *shares)
{
    const double *weights = c->weights + row * c->K, *means = c->means + row * c->K, *stds = c->stds + row * c->K;
    double least = INFINITY, sum = 0.0;
    if (!c->n_cuts) {
        for (size_t k = 0; k < K; k++)
            sum += shares[k] = weights[k];
        return sum;
    }
    for (size_t k = 0; k < K && least > 0.0; k++) { /* what matters is whether all means are below the cut */
        double a = weights[k] > 0.0 ? (c->lower - means[k]) / stds[k] : INFINITY;
        least = a < least ? a : least;
    }
    double top = least > 0.0 ? log_upper_tail(least) : 0.0;
    for (size_t k = 0; k < K; k++) {
        double below = c->lower - means[k];
        shares[k] = weights[k];
        if (weights[k] > 0.0 && below > c->first_cut * stds[k])
            shares[k] *= exp_one(table_tail(c, below / stds[k]) - top);
        sum += shares[k];
    }
    return sum;
}

/* 2 Q(a) e^(a^2 / 2) for a from 0 to 6, Q the upper tail of the standard normal, to 2e-13: a polynomial in
 * (a - 4) / (a + 4) over 1 + 1.2533 a (after Shepherd & Laframboise 1981). */
INLINE double scaled_tail(double a)
{
    double t = (a - 4.0) / (a + 4.0);
    double p01 = 1.135420136553962 - t * 0.1560734505277288, p23 = -0.02791904633656633 + t * 0.1080166447192254;
    double p45 = -0.09634321116969162 + t * 0.04926072978792909, p67 = -0.01279600196337488 - t * 0.00103956560703949;
    double p89 = 0.001835446483875555 - t * 0.0002169098911109279, pab = -0.0002360690633436814 + t * 5.985115707745398e-05;
    double pcd = 5.605025068809396e-05 + t * 1.000511733178933e-05, t2 = t * t, t4 = t2 * t2;
    return (p01 + t2 * p23 + t4 * (p45 + t2 * p67) + t4 * t4 * (p89 + t2 * pab + t4 * pcd)) / (1.0 + 1.2533 * a);
}

/* t with Q(t) = q: a rational approximation (Abramowitz & Stegun 26.2.23), and a step of Halley's method: to 1e-10. */
static double upper_quantile(double q)
{
    double less = q > 0.5 ? 1.0 - q : q, u = sqrt(-2.0 * log(less));
    double t = u - (2.515517 + u * (0.802853 + u * 0.010328)) / (1.0 + u * (1.432788 + u * (0.189269 + u * 0.001308)));
    double e = (0.5 * erfc(0.7071067811865476 * t) - less) * exp(0.5 * (t * t + LOG_2PI));
    t += e / (1.0 - 0.5 * e * t);
    return q > 0.5 ? -t : t;
}

/* x such that Q(a + x) = above Q(a); beyond a = 30 from ln Q(t) - ln Q(a) = (a^2 - t^2) / 2 - ln(t / a), to order 1 / a^2. */
static double cut_excess(double a, double tail, double above)
{
    if (a < 30.0)
        return upper_quantile(above * tail) - a;
    double fall = -2.0 * log(above), x = fall / (a + sqrt(a * a + fall));
    fall -= 2.0 * log1p(x / a);
    return fall / (a + sqrt(a * a + fall));
}

#include "_moments.h"

/* Linear interpolation of y at x (n), increasing; the ends beyond. */
static double interpolate(const double *x, const double *y, size_t n, double at)
{
    if (!(at > x[0]))
        return y[0];
    if (!(at < x[n - 1]))
        return y[n - 1];
    size_t low = 0, high = n - 1;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        low = x[middle] <= at ? middle : low;
        high = x[middle] <= at ? high : middle;
    }
    return y[low] + (y[low + 1] - y[low]) / (x[low + 1] - x[low]) * (at - x[low]);
}

/* Gaussians whose parts above the cut are those of a row. */
static void before_cut(const struct stored *c, double *w, double *m, double *v)
{
    double sum = 0.0;
    int any = 0;
    for (size_t k = 0; k < c->most; k++) {
        double above = m[k] - c->lower;
        if (w[k] > 0.0 && above * fabs(above) < c->uncut * c->uncut * v[k]) {
            double alpha = interpolate(c->ratios, c->cuts, c->n_cuts, v[k] / (above * above)), size = fabs(alpha);
            double fall = exp_one(-0.5 * alpha * alpha), tail = 0.5 * fall * scaled_tail(size < 6.0 ? size : 6.0);
            tail = alpha < 0.0 ? 1.0 - tail : tail;
            double std = above / (0.3989422804014327 * fall / tail - alpha);
            w[k] /= tail;
            m[k] = c->lower - alpha * std;
            v[k] = std * std;
            any = 1;
        }
        sum += w[k];
    }
    for (size_t k = 0; any && k < c->most; k++)
        w[k] /= sum;
}

/* The largest power of two that is not more than x, a positive normal number. */
INLINE double power_below(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0x7ff0000000000000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static size_t widest = 0;

void gpzed_set_lanes(size_t lanes) { widest = lanes; }

uint32_t gpzed_checksum(void) { return GPZED_CHECKSUM; }

#if defined(__x86_64__) && defined(__GNUC__)
#define TARGET_512 __attribute__((target("avx512f,avx512dq,avx512vl,fma,prefer-vector-width=512")))
#define TARGET_256 __attribute__((target("avx2,fma")))
#define HAS_512                                                                                                        \
    (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
#define HAS_256 (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#define LANES 8
#define TARGET TARGET_512
#define NAME(x) x##_512
#include "_blocks.h"
#undef LANES
#undef TARGET
#undef NAME
#define LANES 4
#define TARGET TARGET_256
#define NAME(x) x##_256
#include "_blocks.h"
#undef LANES
#undef TARGET
#undef NAME
#define ALLOWS(width) (widest == 0 || widest >= width)
#define DISPATCH(name)                                                                                                 \
    int gpzed_##name(const struct name *c)                                                                             \
    {                                                                                                                  \
        if (ALLOWS(8) && HAS_512)                                                                                      \
            return name##_512(c);                                                                                      \
        return ALLOWS(4) && HAS_256 ? name##_256(c) : name##_128(c);                                                   \
    }
#define BEST_PANEL (ALLOWS(8) && HAS_512 ? 24 : ALLOWS(4) && HAS_256 ? 12 : 6)
#else
#define BEST_PANEL 6
#define DISPATCH(name)                                                                                                 \
    int gpzed_##name(const struct name *c) { return name##_128(c); }
#endif

#define LANES 2
#define TARGET
#define NAME(x) x##_128
#include "_blocks.h"

DISPATCH(forward)
DISPATCH(backward)
DISPATCH(predict)
DISPATCH(heads)
DISPATCH(mixture)
DISPATCH(committee)
DISPATCH(coverage)
DISPATCH(network)
DISPATCH(descent)
DISPATCH(adam_step_of)
DISPATCH(network_score)
DISPATCH(spread)
DISPATCH(rows)
DISPATCH(points)
DISPATCH(compact)
DISPATCH(merge)
DISPATCH(stored)
DISPATCH(moments)

size_t gpzed_moments_work_size(const struct moments *c) { return 6 * c->K + 8; }

/* Numbers up to the end of memory that begins at NULL, and as many as alignment may take. */
static size_t numbers(const double *end) { return (uintptr_t)end / sizeof(double) + 8; }

size_t gpzed_forward_work_size(const struct forward *c) { return numbers(divide(&c->basis, NULL, BEST_PANEL).end); }
size_t gpzed_backward_work_size(const struct backward *c) { return numbers(divide(&c->basis, NULL, BEST_PANEL).end); }
size_t gpzed_predict_work_size(const struct predict *c) { return numbers(divide(&c->basis, NULL, BEST_PANEL).end); }
size_t gpzed_spread_work_size(const struct spread *c) { return numbers(divide_pairs(c, NULL, BEST_PANEL).end); }
size_t gpzed_rows_work_size(const struct rows *c) { return numbers(divide_rows(c, NULL, BEST_PANEL).end); }
size_t gpzed_points_work_size(const struct points *c) { return numbers(divide_points(c, NULL).end); }
size_t gpzed_merge_work_size(const struct merge *c) { return numbers(divide_merge(c, NULL).end); }
size_t gpzed_compact_work_size(const struct compact *c) { return numbers(divide_compact(c, NULL).end); }

size_t gpzed_heads_work_size(const struct heads *c)
{
    return numbers(divide_heads(&c->basis, c->outputs.K, 0, NULL, BEST_PANEL).end);
}

size_t gpzed_mixture_work_size(const struct mixture *c)
{
    return numbers(divide_heads(&c->basis, c->outputs.K, c->outputs.K, NULL, BEST_PANEL).end);
}

size_t gpzed_committee_work_size(const struct committee *c)
{
    return numbers(divide_committee(c, NULL, 2 * BEST_PANEL).end);
}

size_t gpzed_coverage_work_size(const struct coverage *c)
{
    return numbers(divide_coverage(c, NULL, BEST_PANEL).end);
}

size_t gpzed_network_work_size(const struct network *c)
{
    return numbers(divide_network(c, NULL, BEST_PANEL).end);
}

size_t gpzed_descent_work_size(const struct descent *c) { return numbers(divide_descent(&c->shape, 1, NULL).end); }

size_t gpzed_network_score_work_size(const struct network_score *c)
{
    return numbers(divide_descent(&c->shape, 0, NULL).end);
}

size_t gpzed_kept_size(const struct forward *c)
{
    size_t panel = BEST_PANEL, stride = panel_stride(c->basis.m + c->basis.k + 1, panel);
    return (c->inputs.n + panel - 1) / panel * stride + TILE * panel + 8;
}

#include "_posterior.h"
#include "_parts.h"
