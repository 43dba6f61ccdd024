/* Arguments of the compiled functions: all that Python knows of them. `binding.py` reads this file.
 *
 * One struct for every function, and parts that several of them share. A declaration is one type and its names; arrays
 * are contiguous and stored features first, pointers to const are only read. What a function does not need may be NULL.
 * Functions return 0, or 1 where they failed; `gpzed_NAME_work_size` gives the numbers that `work` must hold.
 */
#include <stddef.h>
#include <stdint.h>

#define MAX_RANK 16 /* columns of V at most where rows have uncertain inputs */

/* Inputs of n rows; strides are in numbers. */
struct inputs {
    size_t n, d;
    ptrdiff_t stride_feature, stride_row;
    const double *Xt;
};

/* What else belongs to rows: targets, weights, weights of ln beta in the likelihood, variance beside that of the noise. */
struct targets {
    const double *y, *omega, *c;
    const double *v;     /* (n), or (K, n) for K heads, or NULL */
    const double *wrong; /* (n) probability that a target is not that of its row, for scores alone, or NULL */
};

/* Basis functions, ln Phi = C'Z on the quadratic map of q features, and k columns of the mean function. */
struct basis {
    size_t m, q, k, is_full;
    const double *Ct; /* (m, q) */
};

/* ln beta = u'Phi + b (Eq. 5.10), within +-max_log_beta. */
struct noise {
    double b, max_log_beta;
    const double *u;
};

/* First pass. */
struct forward {
    struct inputs inputs;
    struct targets targets;
    struct basis basis;
    struct noise noise;
    double *kept; /* Psi and B^1/2 for the second pass, gpzed_kept_size() numbers, or NULL */
    double *work;
    double *PhiT_B_Phi, *PhiT_B_y, *log_det; /* added to; the last is sum c ln(B / omega) */
};
size_t gpzed_forward_work_size(const struct forward *c);
size_t gpzed_kept_size(const struct forward *c);

/* Second pass. */
struct backward {
    struct inputs inputs;
    struct targets targets;
    struct basis basis;
    struct noise noise;
    const double *w;       /* (m + k) */
    const double *inverse; /* S^-1, or NULL: then */
    const double *whitener; /* lower triangular W with S^-1 = W'W */
    const double *kept;    /* of the first pass, or NULL */
    double *work;
    double *ZT_G, *PhiT_g, *sum_g, *misfit; /* added to */
};
size_t gpzed_backward_work_size(const struct backward *c);

/* Mean, model variance and noise variance (Eq. 5.8-5.10). */
struct predict {
    struct inputs inputs;
    struct basis basis;
    struct noise noise;
    const double *w, *whitener;
    double *work;
    double *moments; /* (3, n) */
};
int gpzed_predict(const struct predict *c);
size_t gpzed_predict_work_size(const struct predict *c);

/* K heads: means, log noise precisions within bounds and gates are Theta'Phi. */
struct head_outputs {
    size_t K;
    double min_log_beta, max_log_beta;
    const double *Theta; /* (m + k, 3 K) */
};

/* Likelihood of a mixture of heads and its gradient. */
struct heads {
    struct inputs inputs;
    struct targets targets;
    struct basis basis;
    struct head_outputs outputs;
    double *work;
    double *ZT_G, *PhiT_H; /* added to; both NULL if no gradient is wanted */
    double *log_likelihood; /* added to */
};
int gpzed_heads(const struct heads *c);
size_t gpzed_heads_work_size(const struct heads *c);

/* Predicted mixtures. */
struct mixture {
    struct inputs inputs;
    struct basis basis;
    struct head_outputs outputs;
    const double *whiteners; /* (K, m + k, m + k), lower triangular */
    double *work;
    double *components; /* (4, K, n): weights, means, model variances, noise variances */
};
int gpzed_mixture(const struct mixture *c);
size_t gpzed_mixture_work_size(const struct mixture *c);

/* Where the Gaussians of a member stand among those of a committee, and how they are scaled. */
struct place {
    size_t first, repeats;         /* the member's first column, how often its heads stand there */
    double share, y_mean, y_scale; /* of the member; what undoes the standardisation of the target */
};

/* Heads for raw inputs, with model variances that are sums of squares. */
struct quick_heads {
    struct place place;
    const double *mean, *matrix; /* (d), (d, d): whitened inputs are (x - mean) matrix */
    struct basis basis;
    struct head_outputs outputs;
    const double *squares; /* (m + k, K) */
};

/* The same of a network, which sees whitened inputs from lower to upper, and then zeros. */
struct quick_network {
    struct place place;
    const double *mean, *matrix, *lower, *upper; /* (d) and (d, d) */
    size_t n_layers, widest;                     /* widest: units of the widest layer, inputs included */
    const int64_t *units;                        /* (n_layers + 1): inputs, then outputs of each layer */
    const double *layers;                        /* (inputs + 1, outputs), one after the other */
    struct head_outputs outputs;                 /* its Theta is ignored */
};

/* Mixtures of all members of a committee, (n, step) each. */
struct committee {
    struct inputs inputs;
    size_t n_heads, n_networks;
    const struct quick_heads *heads;
    const struct quick_network *networks;
    size_t step, spare; /* columns in all; whether the last one has no weight yet and is else as the first */
    double *weights, *means, *model_variances, *noise_variances;
    double *work;
};
int gpzed_committee(const struct committee *c);
size_t gpzed_committee_work_size(const struct committee *c);

/* How well training rows cover complete raw inputs: the log density of a mixture of g Gaussians, read by a table. */
struct coverage {
    struct inputs inputs;
    const double *mean, *matrix; /* (d), (d, d): whitened inputs are (x - mean) matrix */
    size_t g, n_levels;
    const double *Ct;                  /* (g, q) on the full quadratic map */
    const double *log_density, *level; /* (n_levels), increasing */
    double tail_scale;                 /* below the first, level falls by a factor e for each */
    double *work;
    double *values; /* (2, n): log densities, levels */
};
int gpzed_coverage(const struct coverage *c);
size_t gpzed_coverage_work_size(const struct coverage *c);

/* Mixtures that a network predicts; each layer has a weight for every input and output, and biases in its last row. */
struct network {
    struct inputs inputs;
    size_t n_layers, widest, K;    /* widest: units of the widest layer, inputs included */
    const int64_t *units;          /* (n_layers + 1): inputs, then outputs of each layer */
    const double *layers;          /* (inputs + 1, outputs), one after the other */
    double min_log_beta, max_log_beta;
    double *work;
    double *components; /* (3, K, n): weights, means, noise variances */
};
int gpzed_network(const struct network *c);
size_t gpzed_network_work_size(const struct network *c);

/* Rows of a network in training, in single precision and rows first. */
struct network_rows {
    size_t n, d;
    const float *X, *y, *omega, *variance, *wrong; /* (n, d), (n) each; the last two may be NULL */
};

/* What a network in training is made of, see `struct network`. */
struct network_shape {
    size_t n_layers, K;
    double min_log_beta, max_log_beta;
    const int64_t *units;
};

/* Steps of Adam, see `engine/adam.py`, by batches of rows. */
struct adam {
    size_t n_batches, size;
    const int64_t *order;   /* (n_batches, size): rows of each batch */
    const double *schedule; /* (n_batches, 4): rate, momentum, rate and mean square corrected for their start */
    double max_norm, memory, forget, epsilon; /* forget: part of the mean square that a step replaces */
};

/* Training of a network, see `mixture/network_training.py`. */
struct descent {
    struct network_rows rows;
    struct network_shape shape;
    struct adam adam;
    ptrdiff_t seed; /* of dropout, below 2^32 */
    double dropout, decay;
    float *theta, *mean, *first, *second; /* all layers, one after the other */
    double *work;
    double *log_likelihood, *norm;  /* of all batches; of the last gradient, per row */
};
int gpzed_descent(const struct descent *c);
size_t gpzed_descent_work_size(const struct descent *c);

/* Weighted sum of the log-likelihoods of rows under a network. */
struct network_score {
    struct network_rows rows;
    struct network_shape shape;
    const float *layers;
    double *work;
    double *log_likelihood;
};
int gpzed_network_score(const struct network_score *c);
size_t gpzed_network_score_work_size(const struct network_score *c);

/* Shapes of m basis functions, of one Lambda if `is_shared`, and inputs uncertain by V V'. */
struct shapes {
    size_t m, d, r, is_shared;
    const double *P, *Lambda, *V; /* (m, d), (m or 1, d, d), (d, r) */
};

/* Coefficients of ln E[phi] on the full quadratic map. */
struct blur {
    struct shapes shapes;
    size_t keeps; /* whether `work` is left to blur_gradient */
    double *work;
    double *Ct; /* (m, q) */
};
int gpzed_blur(const struct blur *c);
size_t gpzed_blur_work_size(const struct blur *c);

/* The way back from their gradient. */
struct blur_gradient {
    struct shapes shapes;
    size_t recalls; /* whether `work` holds what blur found */
    double *work;
    const double *grad_C; /* (q, m) */
    double *grad_P, *grad_Lambda; /* added to */
};
int gpzed_blur_gradient(const struct blur_gradient *c);
size_t gpzed_blur_gradient_work_size(const struct blur_gradient *c);

/* Prior that draws shapes (m, d, d) together. */
struct shape_prior {
    size_t m, d;
    double kappa;
    const double *Lambda;
    double *work;
    double *value, *grad_Lambda; /* added to */
};
int gpzed_shape_prior(const struct shape_prior *c);
size_t gpzed_shape_prior_work_size(const struct shape_prior *c);

/* Pairs of basis functions and quadratic forms of their weights. */
struct pairs {
    size_t count, r, s;     /* pairs, columns of V, forms */
    const int64_t *j, *k;   /* the two basis functions of each pair */
    const double *plain;    /* (m, q): ln phi on the quadratic map */
    const double *slopes;   /* (m r, 1 + d): V' grad ln phi, linear in x */
    const double *factors;  /* (count, 1 + r (r + 1) / 2) of pair_factors */
    const double *weights;  /* (s, count) */
    const double *matrices; /* (s, m, m), lower triangular, for the products of expected basis functions */
    const double *linear;   /* what a linear mean function adds for each of them, or NULL */
};

/* -1/2 ln |R| and the rows of L^-1 / 2^1/2, R = I + VLV_j + VLV_k = L L', of every pair. */
struct pair_factors {
    size_t count, r;
    const int64_t *j, *k;
    const double *VLV; /* (m, r, r) */
    double *factors;
};
int gpzed_pair_factors(const struct pair_factors *c);

/* trace(Q Cov[phi]) of every form Q, but for a constant, in rows of one kind. */
struct spread {
    struct inputs inputs;
    struct basis basis; /* of the expected basis functions */
    struct pairs pairs; /* linear: (s, m, 1 + d) */
    double *work;
    double *totals; /* (s, n) */
};
int gpzed_spread(const struct spread *c);
size_t gpzed_spread_work_size(const struct spread *c);

/* The same, and E[phi], where each row has an uncertainty of its own. */
struct rows {
    struct inputs inputs;
    size_t m;
    const double *V;      /* (d (d + 1) / 2, n), lower triangles */
    const double *Lambda; /* (m, d, d) */
    struct pairs pairs;   /* slopes: grad ln phi; no factors; linear: (s, m, d), weights of Cov[x, phi] */
    double *work;
    double *totals, *Phi; /* (s, n), (m, n) */
};
int gpzed_rows(const struct rows *c);
size_t gpzed_rows_work_size(const struct rows *c);

/* Rows of one kind in a batch. */
struct part {
    struct inputs inputs;
    struct targets targets;
    size_t r;
    const double *V; /* (d, r) */
    double *kept;    /* see `struct forward` */
};

/* Blocks of rows of several kinds. Those with r = 0 see basis functions as they are, others blurred ones of these shapes,
 * whose r is the largest of all parts. */
struct parts {
    size_t n_parts;
    const struct part *parts;
    struct shapes shapes;
};

/* Functions over several blocks in one call; the struct of one block says what all have in common. */
struct forward_parts {
    struct parts parts;
    struct forward each;
    double *work;
};
int gpzed_forward_parts(const struct forward_parts *c);
size_t gpzed_forward_parts_work_size(const struct forward_parts *c);

struct backward_parts {
    struct parts parts;
    struct backward each; /* its ZT_G is that of rows with r = 0 */
    double *work;
    double *grad_P, *grad_Lambda; /* (m, d), (m or 1, d, d), of the other rows; added to */
};
int gpzed_backward_parts(const struct backward_parts *c);
size_t gpzed_backward_parts_work_size(const struct backward_parts *c);

struct heads_parts {
    struct parts parts;
    struct heads each; /* without gradient */
    double *work;
};
int gpzed_heads_parts(const struct heads_parts *c);
size_t gpzed_heads_parts_work_size(const struct heads_parts *c);

/* Log-likelihood of rows that did not enter the fit, their noise variance multiplied by each of several factors. */
struct score_parts {
    struct parts parts;
    struct predict each;
    size_t n_factors;
    const double *factors;
    double *work;
    double *totals; /* (n_factors), added to */
};
int gpzed_score_parts(const struct score_parts *c);
size_t gpzed_score_parts_work_size(const struct score_parts *c);

/* Log posterior of heads given a batch, and its gradient. Parameters are P (m, d), Gamma and Theta in one vector. */
struct posterior {
    size_t m, d, k, gamma, is_shared; /* gamma: 0 isotropic, 1 diagonal, 2 full */
    size_t n_parts;
    const struct part *parts;
    struct head_outputs outputs; /* its Theta is ignored */
    double kappa, ridge;         /* of the priors */
    const double *theta;
    double *work;
    double *value, *gradient;
};
int gpzed_posterior(const struct posterior *c);
size_t gpzed_posterior_work_size(const struct posterior *c);

/* Training of heads, see `mixture/training.py`. */
struct heads_descent {
    struct posterior posterior; /* its parts are kinds of rows, without the rows; priors are those of a batch */
    struct adam adam;           /* rows of one kind are together in each batch */
    size_t n, first;            /* rows; the batch to begin with */
    size_t all_vary;            /* whether rows of kind 0 have v, too */
    const int64_t *kind;        /* (n), or NULL if all are 0 */
    const double *X, *y, *omega, *v; /* (n, d), (n), (n), (n, K) or NULL */
    double *theta, *mean, *first_moment, *second_moment;
    double *work;
    double *value, *norm, *done; /* sum of the log posteriors of batches, norm of the last gradient per row, batches done */
};
int gpzed_heads_descent(const struct heads_descent *c);
size_t gpzed_heads_descent_work_size(const struct heads_descent *c);

/* Points of least expected loss of Gaussian mixtures, given before they are cut. */
struct points {
    size_t n, K, G, g;                            /* rows, components, nodes of each, and of each that is light */
    size_t newton_steps, max_steps, n_cuts;
    double lower, uncut;                          /* where densities are cut, or -inf */
    double knee, smallest, negligible, light, tolerance;
    size_t far_steps, far_halvings;
    double far_cost, far_from, far_to;            /* what errors beyond these cost more, in units of the knee; 0 for nothing */
    double far_share, far_stds;                   /* share of a density that is worth a search, and how far that goes */
    double first_cut, cuts_per_unit;              /* of the tables */
    const double *weights, *means, *stds;         /* (n, K) */
    const double *t, *above, *share;              /* (G + g): nodes of a Gaussian, probability above, weight */
    const double *excess, *log_tails;             /* (n_cuts, G + g), (n_cuts): nodes beyond a cut, less it; ln of the tail */
    double *work;
    double *points;                               /* (n) */
};
int gpzed_points(const struct points *c);
size_t gpzed_points_work_size(const struct points *c);

/* Gaussian mixtures with components that say nearly the same merged, see `prediction/reduce.py`. */
struct compact {
    size_t n, K, slots; /* most components that are left */
    double light, at_once, reach;
    const double *weights, *means, *model_variances, *noise_variances; /* (n, K) */
    const double *input_variances; /* or NULL */
    double *work;
    double *compacted; /* (3, n, slots): weights, means and variances */
};
int gpzed_compact(const struct compact *c);
size_t gpzed_compact_work_size(const struct compact *c);

/* Gaussian mixtures merged to at most `most` components, by their parts above the cut. */
struct merge {
    size_t n, K, most;
    double light, tolerance;
    double lower, uncut, series_from;          /* where densities are cut, or -inf */
    const double *weights, *means, *variances; /* (n, K) */
    double *work;
    double *merged;                            /* (3, n, most): weights, means and variances */
};
int gpzed_merge(const struct merge *c);
size_t gpzed_merge_work_size(const struct merge *c);

/* Merged mixtures as they are stored: before the cut, with few binary digits, heaviest first; all in place. */
struct stored {
    size_t n, most, n_cuts;
    double lower, uncut; /* where densities are cut, or -inf */
    double weight_step, per_std, per_mean; /* steps in a weight, and in a standard deviation at least */
    const double *cuts, *ratios; /* (n_cuts): cuts, and the variance over the squared mean above them, increasing */
    double *mixtures; /* (3, n, most): weights, means and variances, which become standard deviations */
};
int gpzed_stored(const struct stored *c);

/* Mean and parts of the variance of Gaussian mixtures, given before they are cut. */
struct moments {
    size_t n, K, n_members, n_parts;
    double lower, uncut, series_from; /* where densities are cut, or -inf */
    const int64_t *members, *parts;   /* ends of the runs of components of one model, and of one model and input */
    const double *weights, *means, *model_variances, *noise_variances; /* (n, K) */
    const double *input_variances; /* or NULL */
    double *work;
    double *moments; /* (4, n) */
};
int gpzed_moments(const struct moments *c);
size_t gpzed_moments_work_size(const struct moments *c);

/* Numbers in the widest vectors to use; 0 for the widest that the processor has. */
void gpzed_set_lanes(size_t lanes);

/* Checksum of this file when the library was compiled. */
uint32_t gpzed_checksum(void);
