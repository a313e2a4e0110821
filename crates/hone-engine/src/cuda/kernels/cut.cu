// Which ids of a row may be drawn: the k likeliest, the fewest of those that have a share of their probability, and of these the ones that
// are near enough to the likeliest.
//
// Ids are ranked by their depth, which is how far they are below the largest, and equally deep ones by id. The last that is kept is found
// in three looks at all ids, nine bits of the depth each: ids are counted and weighed by bins in whole numbers, whose sums have no order.
// What is too deep to stay is told by the largest of each segment and the sum of all; as a rule so few ids are left that they are listed
// once, and the row is not looked at again.

#define CUT_THREADS 1024
#define BIN_BITS 9
#define BINS (1 << BIN_BITS)
#define DEPTH_BITS (3 * BIN_BITS)
#define DEPTH_MAX ((1u << DEPTH_BITS) - 1)
// Of a rounded sum, what is certainly there.
#define ROUNDED (1.0 - 1e-6)

struct Cut {
    u32 top_k;
    float top_p, min_p;
};

struct Row {
    const float *logits;
    const u64 *allowed;
    int vocab;
    float inverse, top;
};

// Ids that may stay, in no order.
#define LISTED_MAX 4096

struct List {
    u32 n, id[LISTED_MAX];
    float z[LISTED_MAX];
};

// Ids of each bin, and their weights, each as a part of that at the bin's upper edge: 22 bits in two halves, so that a million of them have
// room.
#define HALF 11

struct Bins {
    u32 n[BINS], high[BINS], low[BINS];
};

// The last that is kept: its depth, how many ids have it, how many of those are kept, and the weight of all that is kept; the largest
// weighs 1.
struct Place {
    u32 depth;
    int n_equal, n_kept;
    double weight;
};

// The bits of 1 + (top - z), from 0 on. What is nearer to each other than 2^-23 may be equally deep, and so is all that is e^-65535 times
// as likely as the largest, or less.
__device__ __forceinline__ u32 depth_of(const Row &row, float z) {
    return min(__float_as_uint(1.0f + fmaxf(row.top - z, 0.0f)) - __float_as_uint(1.0f), DEPTH_MAX);
}

// Rounded before anything is taken from it, wherever it is computed; no number for what may not be drawn.
__device__ __forceinline__ float z_of(const Row &row, float logit, bool may) {
    return may ? __fmul_rn(logit, row.inverse) : __int_as_float(0x7fffffff);
}

__device__ __forceinline__ float below_top(u32 depth) { return __uint_as_float(__float_as_uint(1.0f) + depth) - 1.0f; }

// Shows four ids at a time to `look`, with their z; those that may not be drawn have no number.
template <class Look>
__device__ __forceinline__ void each_four(const Row &row, int n_ids, Look look) {
    constexpr int AT_ONCE = 4;
#pragma unroll 1
    for (int first = 4 * threadIdx.x; first - 4 * (int)threadIdx.x < n_ids; first += 4 * AT_ONCE * CUT_THREADS) {
        float4 four[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int id = first + 4 * j * CUT_THREADS;
            four[j] = id < row.vocab ? *(const float4 *)(row.logits + id) : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int id = first + 4 * j * CUT_THREADS;
            u32 may = id < row.vocab && row.allowed ? row.allowed[id >> 6] >> (id & 63) : 15;
            float z[4] = {four[j].x, four[j].y, four[j].z, four[j].w};
#pragma unroll
            for (int i = 0; i < 4; i++) z[i] = z_of(row, z[i], id + i < row.vocab && may >> i & 1);
            look(id, z);
        }
    }
}

// Shows the z of every id that may stay to `look`: of the list, or of the row where too many were to be listed.
template <bool LISTED, class Look>
__device__ __forceinline__ void each_z(const Row &row, const List &list, Look look) {
    if (LISTED) {
        for (int i = threadIdx.x; i < list.n; i += CUT_THREADS) look(list.z[i]);
    } else {
        each_four(row, row.vocab, [&](int, const float *z) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (z[i] == z[i]) look(z[i]);
        });
    }
}

// Lists the ids that are not below the deepest, or says that they are too many. A warp has a segment at a time.
__device__ __forceinline__ bool list_ids(const Row &row, const float2 *parts, int n_parts, u32 deepest, List &list) {
    int lane = threadIdx.x & 31;
    if (threadIdx.x == 0) list.n = 0;
    __syncthreads();
    for (int part = threadIdx.x / 32; part < n_parts; part += CUT_THREADS / 32) {
        // What others have listed by now tells no more than when to give up.
        if (*(volatile u32 *)&list.n > LISTED_MAX) break;
        if (depth_of(row, parts[part].x) > deepest) continue;
        float logit[SEGMENT / 32];
#pragma unroll
        for (int j = 0; j < SEGMENT / 32; j++) {
            int id = part * SEGMENT + 32 * j + lane;
            logit[j] = id < row.vocab ? row.logits[id] : 0.0f;
        }
#pragma unroll
        for (int j = 0; j < SEGMENT / 32; j++) {
            int id = part * SEGMENT + 32 * j + lane;
            float z = z_of(row, logit[j], id < row.vocab && is_allowed(row.allowed, id));
            if (!(z == z) || depth_of(row, z) > deepest) continue;
            u32 at = atomicAdd(&list.n, 1);
            if (at < LISTED_MAX) list.id[at] = id, list.z[at] = z;
        }
    }
    __syncthreads();
    return list.n <= LISTED_MAX;
}

// The bin in which so many ids, or where `n_max` is 0, so much weight is reached, or else the last one with any id. By one warp.
struct Found {
    int bin, n_before;
    double weight_before;
};

__device__ __forceinline__ Found find_bin(const Bins &bins, u32 prefix, int shift, Found before, int n_max, double enough) {
    constexpr int EACH = BINS / 32;
    int lane = threadIdx.x & 31;
    auto weight_of = [&](int bin) {
        float edge = expf(-below_top((prefix << BIN_BITS | bin) << shift));
        return (bins.high[bin] * (double)(1 << HALF) + bins.low[bin]) * (1.0 / (1 << 2 * HALF)) * edge;
    };
    int n = 0;
    double weight = 0.0;
#pragma unroll 4
    for (int i = 0; i < EACH; i++) n += bins.n[lane * EACH + i], weight += weight_of(lane * EACH + i);
    // Of all lanes up to each, and so of those before it.
    int n_upto = n;
    double weight_upto = weight;
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        int n_other = __shfl_up_sync(FULL, n_upto, step);
        double other = __shfl_up_sync(FULL, weight_upto, step);
        if (lane >= step) n_upto += n_other, weight_upto += other;
    }
    double upto_before = __shfl_up_sync(FULL, weight_upto, 1);
    Found own = {-1, before.n_before + n_upto - n, before.weight_before + (lane > 0 ? upto_before : 0.0)}, next = own;
    bool reached = false;
#pragma unroll 1
    for (int i = 0; i < EACH && !reached; i++) {
        int bin = lane * EACH + i;
        if (bins.n[bin] == 0) continue;
        own = next, own.bin = bin;
        next.n_before += bins.n[bin], next.weight_before += weight_of(bin);
        reached = n_max > 0 ? next.n_before >= n_max : next.weight_before >= enough;
    }
    u32 all_reached = __ballot_sync(FULL, reached), with_any = __ballot_sync(FULL, own.bin >= 0);
    int from = all_reached ? __ffs(all_reached) - 1 : with_any ? 31 - __clz(with_any) : 0;
    return {__shfl_sync(FULL, own.bin, from), __shfl_sync(FULL, own.n_before, from), __shfl_sync(FULL, own.weight_before, from)};
}

// The last of the `n_max` first ids, or where that is 0, of the fewest that weigh enough together. Ids below the deepest are not looked at.
template <bool LISTED>
__device__ __noinline__ Place last_place(Row row, const List &list, int n_max, double enough, u32 deepest) {
    __shared__ Bins bins;
    __shared__ u32 prefix;
    __shared__ Place place;
    Found found = {0, 0, 0.0};
    if (threadIdx.x == 0) prefix = 0;
#pragma unroll 1
    for (int shift = DEPTH_BITS - BIN_BITS; shift >= 0; shift -= BIN_BITS) {
        for (int i = threadIdx.x; i < BINS; i += CUT_THREADS) bins.n[i] = 0, bins.high[i] = 0, bins.low[i] = 0;
        __syncthreads();
        u32 looked_at = prefix;
        each_z<LISTED>(row, list, [&](float z) {
            u32 depth = depth_of(row, z), bin = depth >> shift;
            if (depth > deepest || bin >> BIN_BITS != looked_at) return;
            u32 weight = __float2uint_rn(expf(below_top(bin << shift) - (row.top - z)) * (1 << 2 * HALF));
            bin &= BINS - 1;
            atomicAdd(bins.n + bin, 1);
            atomicAdd(bins.high + bin, weight >> HALF);
            atomicAdd(bins.low + bin, weight & ((1 << HALF) - 1));
        });
        __syncthreads();
        if (threadIdx.x < 32) {
            found = find_bin(bins, looked_at, shift, found, n_max, enough);
            int bin = max(found.bin, 0);
            if (threadIdx.x == 0) prefix = looked_at << BIN_BITS | bin, place.n_equal = bins.n[bin];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        double each = expf(-below_top(prefix)), missing = enough - found.weight_before;
        place.depth = prefix;
        place.n_kept = place.n_equal;
        if (n_max > 0) place.n_kept = min(place.n_equal, n_max - found.n_before);
        else if (missing < place.n_equal * each) place.n_kept = max(1, (int)ceil(missing / each));
        place.weight = found.weight_before + place.n_kept * each;
    }
    __syncthreads();
    Place last = place;
    __syncthreads();
    return last;
}

// A depth that the n first ids are not below: that of the n-th of the segments, by their largest.
__device__ __forceinline__ u32 depth_of_first(const Row &row, const float2 *parts, int n_parts, int n) {
    __shared__ u32 depth;
    if (threadIdx.x == 0) depth = DEPTH_MAX;
    __syncthreads();
    for (int i = threadIdx.x; i < n_parts && n <= n_parts; i += CUT_THREADS) {
        int n_before = 0;
#pragma unroll 4
        for (int j = 0; j < n_parts; j++) n_before += parts[j].x > parts[i].x || (parts[j].x == parts[i].x && j < i);
        if (n_before == n - 1) depth = depth_of(row, parts[i].x);
    }
    __syncthreads();
    return depth;
}

// The last of so many ids at a depth that has more.
__device__ __forceinline__ int last_of_equals(const Row &row, u32 depth, int n) {
    __shared__ int of_warp[CUT_THREADS / 32], last;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, seen = 0;
#pragma unroll 1
    for (int first = 0; first < row.vocab && seen < n; first += CUT_THREADS) {
        int id = first + threadIdx.x;
        float z = id < row.vocab ? z_of(row, row.logits[id], is_allowed(row.allowed, id)) : z_of(row, 0.0f, false);
        bool equal = z == z && depth_of(row, z) == depth;
        u32 lanes = __ballot_sync(FULL, equal);
        if (lane == 0) of_warp[warp] = __popc(lanes);
        __syncthreads();
        int before = seen + __popc(lanes & ((1u << lane) - 1));
        for (int i = 0; i < CUT_THREADS / 32; i++) {
            before += i < warp ? of_warp[i] : 0;
            seen += of_warp[i];
        }
        if (equal && before + 1 == n) last = id;
        __syncthreads();
    }
    return last;
}

// The same, of those in the list.
__device__ __forceinline__ int last_of_listed(const Row &row, const List &list, u32 depth, int n) {
    __shared__ int last;
    for (int i = threadIdx.x; i < list.n; i += CUT_THREADS) {
        if (depth_of(row, list.z[i]) != depth) continue;
        int n_upto = 1;
        for (int j = 0; j < list.n; j++) n_upto += list.id[j] < list.id[i] && depth_of(row, list.z[j]) == depth;
        if (n_upto == n) last = list.id[i];
    }
    __syncthreads();
    return last;
}

// The last that is kept, of the list or of the row, and the last id of its depth.
struct Last {
    Place place;
    int id;
};

template <bool LISTED>
__device__ __forceinline__ Last find_last(const Row &row, const List &list, const Cut &cut, float whole, u32 deepest) {
    Place last = {DEPTH_MAX, 0, 0, whole};
    if (cut.top_k > 0) last = last_place<LISTED>(row, list, min(cut.top_k, (u32)row.vocab), 0.0, deepest);
    if (cut.top_p < 1.0f) {
        Place by_weight = last_place<LISTED>(row, list, 0, cut.top_p * last.weight * ROUNDED, deepest);
        bool sooner = by_weight.depth < last.depth || by_weight.n_kept < last.n_kept;
        if (cut.top_k == 0 || (by_weight.depth <= last.depth && sooner)) last = by_weight;
    }
    if (last.n_kept >= last.n_equal) return {last, row.vocab};
    return {last, LISTED ? last_of_listed(row, list, last.depth, last.n_kept) : last_of_equals(row, last.depth, last.n_kept)};
}

__device__ __forceinline__ bool stays(const Row &row, const Cut &cut, const Last &last, int id, float z) {
    u32 depth = depth_of(row, z);
    bool is_before = depth < last.place.depth || (depth == last.place.depth && id <= last.id);
    return is_before && (depth == 0 || cut.min_p <= 0.0f || expf(z - row.top) >= cut.min_p);
}

// What may be drawn of each row, as bits: of its mask, where it has one, what the row's cut leaves. One block per row.
extern "C" __global__ void __launch_bounds__(CUT_THREADS)
    head_cut(const float *logits, int stride, int vocab, const float2 *parts, int n_parts, const float *inverse_temperatures,
             const int *masks, const u64 *bits, int n_words, const Cut *cuts, int *cut_masks, u64 *cut_bits) {
    __shared__ float room[CUT_THREADS / 32];
    __shared__ List list;
    let_next_start();
    await_previous();
    int row_number = blockIdx.x;
    Cut cut = cuts[row_number];
    Row row = {logits + (i64)row_number * stride, row_mask(masks, bits, n_words, row_number), vocab, inverse_temperatures[row_number], NEVER};
    bool cuts_any = cut.top_k > 0 || cut.top_p < 1.0f || cut.min_p > 0.0f;
    cut_bits += (i64)row_number * n_words, parts += (i64)row_number * n_parts;
    if (threadIdx.x == 0) cut_masks[row_number] = cuts_any || row.allowed ? row_number : -1;
    if (!cuts_any) {
        for (int i = threadIdx.x; row.allowed && i < n_words; i += CUT_THREADS) cut_bits[i] = row.allowed[i];
        return;
    }
    float whole = 0.0f;
    for (int i = threadIdx.x; i < n_parts; i += CUT_THREADS) row.top = fmaxf(row.top, parts[i].x);
    row.top = block_max<CUT_THREADS>(row.top, room);
    for (int i = threadIdx.x; i < n_parts; i += CUT_THREADS) whole = fmaf(parts[i].y, expf(parts[i].x - row.top), whole);
    whole = block_sum(whole, room);
    // From what is no number nothing is drawn.
    if (!isfinite(whole)) {
        for (int i = threadIdx.x; i < n_words; i += CUT_THREADS) cut_bits[i] = 0;
        return;
    }
    // The first k are not below the k-th segment, and top-p takes its share of all of them. Else, were all ids less likely than this, they
    // would weigh less than what top-p cuts off, or are what min-p cuts off.
    float least = fmaxf((1.0f - cut.top_p) * whole / vocab, cut.min_p);
    u32 deepest = cut.top_k > 0  ? depth_of_first(row, parts, n_parts, min(cut.top_k, (u32)vocab))
                  : least > 0.0f ? depth_of(row, row.top + logf(least) - 0.1f)
                                 : DEPTH_MAX;
    if (list_ids(row, parts, n_parts, deepest, list)) {
        Last last = find_last<true>(row, list, cut, whole, deepest);
        for (int i = threadIdx.x; i < n_words; i += CUT_THREADS) cut_bits[i] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < list.n; i += CUT_THREADS)
            if (stays(row, cut, last, list.id[i], list.z[i])) atomicOr((u32 *)cut_bits + list.id[i] / 32, 1u << (list.id[i] & 31));
        return;
    }
    Last last = find_last<false>(row, list, cut, whole, deepest);
    each_four(row, 64 * n_words, [&](int id, const float *z) {
        u32 kept = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) kept |= (u32)(z[i] == z[i] && stays(row, cut, last, id + i, z[i])) << (4 * (id / 4 & 7) + i);
#pragma unroll
        for (int step = 1; step < 8; step <<= 1) kept |= __shfl_xor_sync(FULL, kept, step);
        if ((id & 31) == 0 && id < 64 * n_words) ((u32 *)cut_bits)[id / 32] = kept;
    });
}
